// python/core/pool.cpp: the messages of a pool: its parent's end and its workers' ends.
//
// A message is a pickle and the buffers that it refers to. It stays in its sender's memory: only
// its address is passed on, and the receiver returns it when nothing refers to it any more. The
// parent of the pool owns struct Shared; workers get its address. A member that dies at any
// instruction leaves every list consistent: a message is linked by one compare-and-swap.
//
//   call     parent -> Shared.cells, a bounded queue from which all workers take calls
//   result   worker -> Shared.results
//   return   receiver -> Message.returned, a list in the sender's memory
//
// Sleeping: a side that finds no message sets its word `asleep`, checks again, and polls its
// socket. A sender that finds the word set after it has added a message clears the word and writes
// to that socket. Both are sequentially consistent, so at least one of the two sees the other.
#include "module.hpp"

#include <onespace.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <unordered_set>
#include <vector>

namespace pools
{
namespace
{

// ---- Shared memory ----

struct Buffer {
    uint64_t address, bytes;
    uint64_t read_only;
};

struct Message {
    Message *next;                    // in its list; written by the member that links it
    std::atomic<Message *> *returned; // the sender's list of returned messages
    uint64_t call_number;
    uint64_t pickle, pickle_bytes; // address and size
    const Buffer *buffers;
    uint64_t buffer_count, buffer_bytes;
    uint32_t kind;               // see onespace/pools/messages.py
    std::atomic<int32_t> worker; // number of the worker that took or sent it; -1: none yet
};

using List = std::atomic<Message *>; // the newest message first

inline void push(List &list, Message *message)
{
    message->next = list.load(std::memory_order_relaxed);
    while (!list.compare_exchange_weak(message->next, message))
        ;
}

struct WorkerSlot {
    alignas(64) std::atomic<uint32_t> asleep;
};

struct Cell { // of the queue of calls; see push_call
    std::atomic<uint64_t> sequence;
    std::atomic<Message *> message;
};

constexpr char MAGIC[8] = "1sPool1";
// Smaller buffers are copied: sharing costs more. onespace/pools/messages.py has the same constant.
constexpr uint64_t IN_PLACE_MIN_BYTES = 4096;
// Returning a message of this size wakes its sender, which frees the memory at once.
constexpr uint64_t WAKE_SENDER_MIN_BYTES = 1 << 20;

struct Shared {
    char magic[8];
    uint32_t size; // of this structure: detects another version of the package
    uint32_t cpus; // that the pool may use
    uint32_t worker_count;
    uint32_t cell_count; // a power of two
    WorkerSlot *workers;
    Cell *cells;
    Message *setup; // read by each worker when it starts; never returned
    alignas(64) List results;
    List returned;                        // calls of the parent that workers no longer refer to
    std::atomic<uint32_t> asleep;         // the parent's receiving thread
    std::atomic<uint32_t> result_pollers; // threads of the parent that poll `results`
    std::atomic<uint32_t> closing;        // set by the parent: workers exit when the queue is empty
    std::atomic<uint32_t> abandoned;      // set by the parent: workers exit and leave the queue
    std::atomic<int32_t> awake_workers;
    std::atomic<int32_t> call_pollers;      // workers that poll for a call; see claim_poller
    alignas(64) std::atomic<uint64_t> tail; // written by the parent only
    alignas(64) std::atomic<uint64_t> head; // advanced by the worker that takes a call
};

// A bounded queue, one producer. Cell i holds sequence i when it is free for position i, and i + 1
// when the message of position i is in it.
inline bool push_call(Shared &shared, Message *message)
{
    uint64_t position = shared.tail.load(std::memory_order_relaxed);
    Cell &cell = shared.cells[position & (shared.cell_count - 1)];
    if (cell.sequence.load(std::memory_order_acquire) != position)
        return false; // full
    cell.message.store(message, std::memory_order_relaxed);
    cell.sequence.store(position + 1);
    shared.tail.store(position + 1);
    return true;
}

// A worker that polls increments `call_pollers`, and decrements it before it looks for calls. The
// parent decrements it for each call that it leaves to a polling worker, so that it wakes a
// sleeping worker for the next call. The value never exceeds the number of polling workers; a
// smaller value only wakes a worker unnecessarily.
inline bool claim_poller(Shared &shared)
{
    int32_t count = shared.call_pollers.load();
    while (count > 0)
        if (shared.call_pollers.compare_exchange_weak(count, count - 1))
            return true;
    return false;
}

inline Message *take_call(Shared &shared)
{
    uint64_t position = shared.head.load();
    for (;;) {
        Cell &cell = shared.cells[position & (shared.cell_count - 1)];
        int64_t ahead = static_cast<int64_t>(cell.sequence.load() - (position + 1));
        if (ahead < 0)
            return nullptr; // empty
        if (ahead > 0)
            position = shared.head.load(); // another worker was faster
        else if (shared.head.compare_exchange_weak(position, position + 1)) {
            Message *message = cell.message.load(std::memory_order_relaxed);
            cell.sequence.store(position + shared.cell_count, std::memory_order_release);
            return message;
        }
    }
}

// ---- Messages ----

// A message of this member, with references to the objects whose memory it describes. Freed after
// it was returned.
struct SentMessage : Message {
    Py_buffer pickle_view;
    std::vector<Py_buffer> views;
    std::vector<Buffer> buffer_list;
};

// One end of a pool. All functions are called with the interpreter's lock held.
class Endpoint : private NonCopyable
{
  public:
    virtual ~Endpoint() = default;

    // Frees the messages that receivers have returned.
    void free_returned();
    // Returns a message to its sender, and wakes the sender if it can free much memory.
    virtual void return_message(Message *message) = 0;

  protected:
    SentMessage *create_message(uint32_t kind, uint64_t call_number, nb::handle pickle,
                                nb::handle buffers);
    void free_message(SentMessage *sent);

    List *returned = nullptr;                     // receives the returned messages of this member
    std::unordered_set<SentMessage *> unreturned; // messages of this member
};

// A message of the other end, as a Python object. It returns the message when nothing refers to the
// object or to the message's memory.
class ReceivedMessage : private NonCopyable
{
  public:
    ReceivedMessage(Message *message, nb::object end) : message(message), end(std::move(end))
    {
    }
    ~ReceivedMessage();

    Message *message;
    nb::object end;
    nb::object memory;        // set from Python: objects that hold the sender's memory
    bool is_borrowed = false; // is not returned
};

// Polls `is_done` without the interpreter's lock. A success doubles the time limit of the next
// poll, a failure halves it.
class AdaptivePoller
{
  public:
    template <typename Test> bool operator()(Test &&is_done);

  private:
    int64_t budget_ns = MAX_NS;
    static constexpr int64_t MAX_NS = 100000, MIN_NS = 2000;
    static int64_t now_ns();
};

template <typename Test> bool AdaptivePoller::operator()(Test &&is_done)
{
    const int64_t end = now_ns() + budget_ns;
    bool found = false;
    {
        GilRelease unlocked;
        do
            for (int i = 0; i < 32 && !found; i++) {
                found = is_done();
                onespace::sync::relax();
            }
        while (!found && now_ns() < end);
    }
    budget_ns = found ? std::min(budget_ns * 2, MAX_NS) : std::max(budget_ns / 2, MIN_NS);
    return found;
}

// Memory of a message, as a buffer. The message is not returned while it exists.
struct Memory {
    nb::object received;
    uint64_t address, bytes;
    bool read_only;
};

int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    buffer->obj = nullptr;
    const Memory *memory = nb::inst_ptr<Memory>(self);
    return PyBuffer_FillInfo(buffer, self, reinterpret_cast<void *>(memory->address),
                             static_cast<Py_ssize_t>(memory->bytes), memory->read_only, flags);
}

PyType_Slot memory_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void *>(get_buffer)},
    {0, nullptr},
};

Message &message_of(nb::handle self)
{
    return *nb::inst_ptr<ReceivedMessage>(self)->message;
}

nb::object pickle_of(nb::handle_t<ReceivedMessage> self)
{
    const Message &message = message_of(self);
    return nb::cast(new Memory{nb::borrow(self), message.pickle, message.pickle_bytes, true},
                    nb::rv_policy::take_ownership);
}

nb::object copy_of(const Buffer &buffer, bool read_only)
{
    const char *bytes = reinterpret_cast<const char *>(buffer.address);
    Py_ssize_t size = static_cast<Py_ssize_t>(buffer.bytes);
    return nb::steal(read_only ? PyBytes_FromStringAndSize(bytes, size)
                               : PyByteArray_FromStringAndSize(bytes, size));
}

// The buffers for pickle.loads: writable copies below `copy_below` bytes, read-only copies below
// IN_PLACE_MIN_BYTES, otherwise the sender's memory.
nb::list buffers_of(nb::handle_t<ReceivedMessage> self, bool writable, uint64_t copy_below)
{
    const Message &message = message_of(self);
    nb::list buffers;
    for (uint64_t i = 0; i < message.buffer_count; i++) {
        const Buffer &buffer = message.buffers[i];
        bool is_private = buffer.bytes < copy_below, read_only = buffer.read_only || !writable;
        if (is_private || buffer.bytes < IN_PLACE_MIN_BYTES)
            buffers.append(copy_of(buffer, read_only && !is_private));
        else
            buffers.append(
                nb::cast(new Memory{nb::borrow(self), buffer.address, buffer.bytes, read_only},
                         nb::rv_policy::take_ownership));
    }
    return buffers;
}

// The addresses of the buffers that buffers_of does not copy.
nb::list addresses_of(nb::handle_t<ReceivedMessage> self)
{
    const Message &message = message_of(self);
    nb::list addresses;
    for (uint64_t i = 0; i < message.buffer_count; i++)
        if (message.buffers[i].bytes >= IN_PLACE_MIN_BYTES)
            addresses.append(message.buffers[i].address);
    return addresses;
}

// Wakes the member that polls the other end of the socket. Errors are ignored: a full socket wakes
// it anyway, and a closed one has no other end.
void wake_socket(int socket)
{
    if (socket >= 0)
        (void)!send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int64_t AdaptivePoller::now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

ReceivedMessage::~ReceivedMessage()
{
    if (!is_borrowed)
        nb::cast<Endpoint &>(end).return_message(message);
}

// The Python object of a message that `end` has received.
nb::object make_received(Message *message, nb::handle end)
{
    return nb::cast(new ReceivedMessage(message, nb::borrow(end)), nb::rv_policy::take_ownership);
}

SentMessage *Endpoint::create_message(uint32_t kind, uint64_t call_number, nb::handle pickle,
                                      nb::handle buffers)
{
    std::unique_ptr<SentMessage> sent(new SentMessage{});
    std::vector<nb::object> list;
    if (!buffers.is_none())
        for (nb::handle buffer : buffers)
            list.push_back(nb::borrow(buffer));
    sent->views.reserve(list.size());
    sent->buffer_list.reserve(list.size());
    if (PyObject_GetBuffer(pickle.ptr(), &sent->pickle_view, PyBUF_SIMPLE) != 0)
        throw nb::python_error();
    for (const nb::object &buffer : list) {
        Py_buffer view;
        if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_FULL_RO) != 0) {
            free_message(sent.release());
            throw nb::python_error();
        }
        sent->views.push_back(view);
        sent->buffer_list.push_back({reinterpret_cast<uint64_t>(view.buf),
                                     static_cast<uint64_t>(view.len),
                                     static_cast<uint64_t>(view.readonly)});
        sent->buffer_bytes += static_cast<uint64_t>(view.len);
    }
    sent->kind = kind;
    sent->call_number = call_number;
    sent->returned = returned;
    sent->pickle = reinterpret_cast<uint64_t>(sent->pickle_view.buf);
    sent->pickle_bytes = static_cast<uint64_t>(sent->pickle_view.len);
    sent->buffers = sent->buffer_list.data();
    sent->buffer_count = sent->buffer_list.size();
    sent->worker = -1;
    unreturned.insert(sent.get());
    return sent.release();
}

void Endpoint::free_message(SentMessage *sent)
{
    unreturned.erase(sent);
    PyBuffer_Release(&sent->pickle_view); // may free objects, which may run any code
    for (Py_buffer &view : sent->views)
        PyBuffer_Release(&view);
    delete sent;
}

void Endpoint::free_returned()
{
    if (returned->load(std::memory_order_relaxed) == nullptr)
        return;
    Message *next = nullptr;
    for (Message *message = returned->exchange(nullptr); message; message = next) {
        next = message->next;
        free_message(static_cast<SentMessage *>(message));
    }
}

// ---- The parent's end ----

class Dispatcher : public Endpoint
{
  public:
    Dispatcher(uint32_t workers, uint32_t cells, uint32_t cpus)
    {
        uint32_t size = 2;
        while (size < cells)
            size *= 2;
        shared = new Shared{};
        std::memcpy(shared->magic, MAGIC, sizeof(MAGIC));
        shared->size = sizeof(*shared);
        shared->cpus = cpus;
        shared->worker_count = workers;
        shared->cell_count = size;
        shared->workers = new WorkerSlot[workers]{};
        shared->cells = new Cell[size]{};
        for (uint32_t i = 0; i < size; i++)
            shared->cells[i].sequence = i;
        sockets.assign(workers, -1);
        returned = &shared->returned;
    }
    ~Dispatcher() override
    {
        if (!has_no_workers) // live workers use this memory until they exit
            return;
        delete[] shared->cells;
        delete[] shared->workers;
        delete shared;
    }

    uint64_t address() const
    {
        return reinterpret_cast<uint64_t>(shared);
    }
    void set_setup(nb::handle pickle, nb::handle buffers)
    {
        shared->setup = create_message(0, 0, pickle, buffers);
    }
    // Adds worker `number`, which the socket wakes. socket -1: the worker has ended.
    void set_worker(uint32_t number, int socket)
    {
        has_no_workers = false;
        if (socket < 0 && shared->workers[number].asleep.exchange(0) == 0 && sockets[number] >= 0)
            shared->awake_workers.fetch_sub(1);
        else if (socket >= 0)
            shared->awake_workers.fetch_add(1);
        sockets[number] = socket;
    }
    // Moves the first call of `waiting`, a deque of (future, pickle, buffers), to the workers'
    // queue and its future to the dictionary `posted`: in one step, which no Python signal handler
    // interrupts. Returns false if the queue is full.
    bool post(uint32_t kind, uint64_t call_number, nb::handle waiting, const nb::dict &posted)
    {
        nb::tuple call = nb::borrow<nb::tuple>(waiting[0]);
        SentMessage *sent = create_message(kind, call_number, call[1], call[2]);
        if (!push_call(*shared, sent)) {
            free_message(sent);
            return false;
        }
        posted[nb::int_(call_number)] = call[0];
        waiting.attr("popleft")();
        if (!claim_poller(*shared))
            wake_one();
        return true;
    }
    // Appends the received messages to the list, in one step that no Python signal handler
    // interrupts.
    void collect_results(nb::handle_t<Dispatcher> self, nb::list list)
    {
        free_returned();
        std::vector<Message *> found; // the newest message first
        if (shared->results.load(std::memory_order_relaxed))
            for (Message *message = shared->results.exchange(nullptr); message;
                 message = message->next)
                found.push_back(message);
        for (auto message = found.rbegin(); message != found.rend(); ++message)
            list.append(make_received(*message, self));
    }
    // Polls for messages if a CPU is free. Returns whether there are messages.
    bool poll_results()
    {
        if (shared->results.load())
            return true;
        if (shared->awake_workers.load() >= static_cast<int32_t>(shared->cpus))
            return false;
        shared->result_pollers.fetch_add(1);
        Shared *memory = shared;
        bool found = poller([memory] { return memory->results.load() != nullptr; });
        shared->result_pollers.fetch_sub(1);
        // A message that was sent meanwhile has woken no thread.
        return found || shared->results.load();
    }
    // Returns true if there is no message; from then on senders wake the receiving thread.
    bool prepare_sleep()
    {
        shared->asleep.store(1);
        if (!shared->results.load() && !shared->returned.load())
            return true;
        shared->asleep.store(0);
        return false;
    }
    void finish_sleep()
    {
        shared->asleep.store(0);
    }
    void close()
    {
        shared->closing.store(1);
        for (uint32_t i = 0; i < shared->worker_count; i++)
            wake(i);
    }
    void abandon()
    {
        shared->abandoned.store(1);
    }
    // Frees the messages that worker `number`, which has ended, has not returned.
    void free_worker_messages(int32_t number)
    {
        free_returned();
        std::vector<SentMessage *> lost;
        for (SentMessage *sent : unreturned)
            if (sent->worker.load() == number)
                lost.push_back(sent);
        for (SentMessage *sent : lost)
            free_message(sent);
    }
    // Precondition: all workers have ended.
    void free_all_messages()
    {
        shared->returned.store(nullptr);
        while (!unreturned.empty())
            free_message(*unreturned.begin());
        has_no_workers = true;
    }
    // The object in whose memory `address` is, among those that were sent to worker `number`, or
    // None. A reference to it keeps the memory after the worker's end.
    nb::object find_lent(int32_t number, uint64_t address) const
    {
        for (const SentMessage *sent : unreturned)
            if (sent->worker.load() == number || sent == shared->setup)
                for (size_t i = 0; i < sent->buffer_list.size(); i++)
                    if (address - sent->buffer_list[i].address < sent->buffer_list[i].bytes)
                        return nb::borrow(sent->views[i].obj);
        return nb::none();
    }
    void return_message(Message *message) override
    {
        int32_t number = message->worker.load();
        uint64_t bytes = message->buffer_bytes + message->pickle_bytes;
        push(*message->returned, message); // the sender may free it now
        if (bytes >= WAKE_SENDER_MIN_BYTES && number >= 0)
            wake(static_cast<uint32_t>(number));
    }

  private:
    bool wake(uint32_t number)
    {
        std::atomic<uint32_t> &asleep = shared->workers[number].asleep;
        if (!asleep.load() || !asleep.exchange(0))
            return false;
        shared->awake_workers.fetch_add(1);
        wake_socket(sockets[number]);
        return true;
    }
    void wake_one()
    {
        for (uint32_t i = 0; i < shared->worker_count; i++)
            if (wake(i))
                return;
    }

    Shared *shared;
    std::vector<int> sockets; // by worker number
    AdaptivePoller poller;
    bool has_no_workers = true;
};

// ---- A worker's end ----

class WorkerEndpoint : public Endpoint
{
  public:
    // The parent has the socket's other end, which closes when the parent ends or executes another
    // program. `process`: a pidfd of the parent, or -1; it reports the parent's end even if a child
    // of the parent keeps the socket open.
    WorkerEndpoint(uint64_t address, int32_t number, int socket, int process)
        : shared(reinterpret_cast<Shared *>(address)), number(number), socket(socket),
          process(process)
    {
        if (std::memcmp(shared->magic, MAGIC, sizeof(MAGIC)) != 0 ||
            shared->size != sizeof(*shared))
            errors::raise(PyExc_RuntimeError,
                          "this worker and its parent use different versions of the package "
                          "onespace: start the program again");
        returned = &own_returned;
    }

    nb::object setup(nb::handle_t<WorkerEndpoint> self)
    {
        nb::object result = make_received(shared->setup, self);
        nb::inst_ptr<ReceivedMessage>(result)->is_borrowed = true;
        return result;
    }
    // The next call. None: the pool is closed, or the parent has ended.
    nb::object take(nb::handle_t<WorkerEndpoint> self)
    {
        for (;;) {
            free_returned();
            if (is_abandoned())
                return nb::none();
            if (Message *message = take_call(*shared)) {
                message->worker.store(number);
                return make_received(message, self);
            }
            if (shared->closing.load())
                return nb::none();
            if (poll_for_work())
                continue;
            if (!sleep())
                return nb::none();
        }
    }
    bool is_abandoned() const
    {
        return shared->abandoned.load();
    }
    void send(uint32_t kind, uint64_t call_number, nb::handle pickle, nb::handle buffers)
    {
        free_returned();
        SentMessage *sent = create_message(kind, call_number, pickle, buffers);
        sent->worker.store(number);
        push(shared->results, sent);
        if (shared->result_pollers.load() == 0)
            wake_parent();
    }
    void return_message(Message *message) override
    {
        uint64_t bytes = message->buffer_bytes + message->pickle_bytes;
        push(*message->returned, message); // the sender may free it now
        if (bytes >= WAKE_SENDER_MIN_BYTES)
            wake_parent();
    }

  private:
    void wake_parent()
    {
        if (shared->asleep.load() && shared->asleep.exchange(0))
            wake_socket(socket);
    }
    bool has_work() const
    {
        return shared->head.load() != shared->tail.load() || shared->closing.load() ||
               own_returned.load();
    }
    // Polls only if each awake worker and the parent can have a CPU.
    bool poll_for_work()
    {
        if (shared->awake_workers.load() >= static_cast<int32_t>(shared->cpus))
            return false;
        shared->call_pollers.fetch_add(1);
        bool found = poller([this] { return has_work(); });
        claim_poller(*shared);
        return found;
    }
    // Returns false if the parent has ended.
    bool sleep()
    {
        std::atomic<uint32_t> &asleep = shared->workers[number].asleep;
        shared->awake_workers.fetch_sub(1);
        asleep.store(1);
        bool alive = true;
        while (alive && asleep.load() && !has_work())
            alive = wait_for_wakeup();
        if (asleep.exchange(0))
            shared->awake_workers.fetch_add(1); // a parent that wakes a worker counts it
        return alive;
    }
    bool wait_for_wakeup()
    {
        struct pollfd polled[] = {{socket, POLLIN, 0}, {process, POLLIN, 0}};
        int result;
        {
            GilRelease unlocked;
            result = poll(polled, 2, -1);
        }
        if (result < 0 && PyErr_CheckSignals() != 0)
            throw nb::python_error();
        if (result <= 0)
            return true;
        if (polled[1].revents)
            return false;
        char bytes[64];
        return !polled[0].revents || recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
    }

    Shared *shared;
    int32_t number;
    int socket, process;
    List own_returned{nullptr}; // messages that the parent has returned
    AdaptivePoller poller;
};

} // namespace
} // namespace pools

void add_pool(nb::module_ &module)
{
    using namespace pools;
    nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots));
    nb::class_<ReceivedMessage>(module, "ReceivedMessage")
        .def_prop_ro("kind", [](const ReceivedMessage &self) { return self.message->kind; })
        .def_prop_ro("call_number",
                     [](const ReceivedMessage &self) { return self.message->call_number; })
        .def_prop_ro("sender",
                     [](const ReceivedMessage &self) { return self.message->worker.load(); })
        .def_prop_ro("pickle", pickle_of)
        .def_prop_ro("addresses", addresses_of)
        .def("buffers", buffers_of, nb::arg("writable"), nb::arg("copy_below"))
        .def_rw("memory", &ReceivedMessage::memory, nb::arg().none());
    nb::class_<Endpoint>(module, "Endpoint");
    module.def(
        "hold", [](int id) { return onespace_hold(id); }, nb::arg("id"));
    module.def(
        "release", [](int id) { return onespace_release(id); }, nb::arg("id"));
    nb::class_<Dispatcher, Endpoint>(module, "Dispatcher")
        .def(nb::init<uint32_t, uint32_t, uint32_t>(), nb::arg("workers"), nb::arg("cells"),
             nb::arg("cpus"))
        .def_prop_ro("address", &Dispatcher::address)
        .def("set_setup", &Dispatcher::set_setup, nb::arg("pickle"), nb::arg("buffers"))
        .def("set_worker", &Dispatcher::set_worker, nb::arg("number"), nb::arg("socket"))
        .def("post", &Dispatcher::post, nb::arg("kind"), nb::arg("call_number"), nb::arg("waiting"),
             nb::arg("posted"))
        .def(
            "collect_results",
            [](nb::handle_t<Dispatcher> self, nb::list list) {
                nb::cast<Dispatcher &>(self).collect_results(self, std::move(list));
            },
            nb::arg("list"))
        .def("poll_results", &Dispatcher::poll_results)
        .def("prepare_sleep", &Dispatcher::prepare_sleep)
        .def("finish_sleep", &Dispatcher::finish_sleep)
        .def("close", &Dispatcher::close)
        .def("abandon", &Dispatcher::abandon)
        .def("free_worker_messages", &Dispatcher::free_worker_messages, nb::arg("number"))
        .def("free_all_messages", &Dispatcher::free_all_messages)
        .def("find_lent", &Dispatcher::find_lent, nb::arg("number"), nb::arg("address"));
    nb::class_<WorkerEndpoint, Endpoint>(module, "WorkerEndpoint")
        .def(nb::init<uint64_t, int32_t, int, int>(), nb::arg("address"), nb::arg("number"),
             nb::arg("socket"), nb::arg("process"))
        .def("setup",
             [](nb::handle_t<WorkerEndpoint> self) {
                 return nb::cast<WorkerEndpoint &>(self).setup(self);
             })
        .def("take",
             [](nb::handle_t<WorkerEndpoint> self) {
                 return nb::cast<WorkerEndpoint &>(self).take(self);
             })
        .def("is_abandoned", &WorkerEndpoint::is_abandoned)
        .def("send", &WorkerEndpoint::send, nb::arg("kind"), nb::arg("call_number"),
             nb::arg("pickle"), nb::arg("buffers").none());
}
