// python/core/dispatcher.cpp: the parent's end of a pool.
#include "messages.hpp"
#include "parts.hpp"

#include <cstring>

namespace pools
{

namespace
{

class Dispatcher : public End
{
  public:
    Dispatcher(uint32_t seats, uint32_t cells, uint32_t cpus)
    {
        uint32_t size = 2;
        while (size < cells)
            size *= 2;
        shared = new Shared{};
        std::memcpy(shared->magic, MAGIC, sizeof(MAGIC));
        shared->size = sizeof(*shared);
        shared->cpus = cpus;
        shared->seat_count = seats;
        shared->cell_count = size;
        shared->seats = new Seat[seats]{};
        shared->cells = new Cell[size]{};
        for (uint32_t i = 0; i < size; i++)
            shared->cells[i].sequence = i;
        sockets.assign(seats, -1);
        returned = &shared->returned;
    }
    ~Dispatcher() override
    {
        if (!is_alone) // workers may live: they end by themselves, and until then use this memory
            return;
        delete[] shared->cells;
        delete[] shared->seats;
        delete shared;
    }

    uint64_t address() const
    {
        return reinterpret_cast<uint64_t>(shared);
    }
    void set_setup(nb::handle text, nb::handle buffers)
    {
        shared->setup = make(0, 0, text, buffers);
    }
    // A worker gets the seat; the socket wakes it. -1: it has ended.
    void seat(uint32_t number, int socket)
    {
        is_alone = false;
        if (socket < 0 && shared->seats[number].asleep.exchange(0) == 0 && sockets[number] >= 0)
            shared->awake.fetch_sub(1);
        else if (socket >= 0)
            shared->awake.fetch_add(1);
        sockets[number] = socket;
    }
    // Passes the first call of `waiting`, a deque of (future, text, buffers), to the workers, and
    // records its future in the dictionary `posted`: in one step, which no signal's handler can
    // interrupt. False: the queue is full, and nothing was done.
    bool post(uint32_t kind, uint64_t number, nb::handle waiting, const nb::dict &posted)
    {
        nb::tuple call = nb::borrow<nb::tuple>(waiting[0]);
        Sent *sent = make(kind, number, call[1], call[2]);
        if (!push_job(*shared, sent)) {
            free_sent(sent);
            return false;
        }
        posted[nb::int_(number)] = call[0];
        waiting.attr("popleft")();
        if (!use_poller(*shared))
            wake_one();
        return true;
    }
    // Appends what has arrived to the list, in one step: no signal's handler can come between.
    void collect(nb::handle_t<Dispatcher> self, nb::list list)
    {
        sweep();
        std::vector<Message *> found; // the newest first
        if (shared->arrived.load(std::memory_order_relaxed))
            for (Message *message = shared->arrived.exchange(nullptr); message;
                 message = message->next)
                found.push_back(message);
        for (auto message = found.rbegin(); message != found.rend(); ++message)
            list.append(received(*message, self));
    }
    // Polls for messages, if a CPU is free for that. True: there are some.
    bool watch()
    {
        if (shared->arrived.load())
            return true;
        if (shared->awake.load() >= static_cast<int32_t>(shared->cpus))
            return false;
        shared->watchers.fetch_add(1);
        Shared *memory = shared;
        bool found = spinner([memory] { return memory->arrived.load() != nullptr; });
        // What was sent while we watched has woken nobody, so look once more.
        shared->watchers.fetch_sub(1);
        return found || shared->arrived.load();
    }
    // True: nothing is there, and from now on who sends something wakes the receiving thread.
    bool sleep()
    {
        shared->asleep.store(1);
        if (!shared->arrived.load() && !shared->returned.load())
            return true;
        shared->asleep.store(0);
        return false;
    }
    void woken()
    {
        shared->asleep.store(0);
    }
    void close()
    {
        shared->closing.store(1);
        for (uint32_t i = 0; i < shared->seat_count; i++)
            wake(i);
    }
    void abandon()
    {
        shared->abandoned.store(1);
    }
    // The worker at this seat has ended: what it had borrowed counts as returned.
    void drop(int32_t number)
    {
        sweep();
        std::vector<Sent *> dropped;
        for (Sent *sent : unreturned)
            if (sent->taker.load() == number)
                dropped.push_back(sent);
        for (Sent *sent : dropped)
            free_sent(sent);
    }
    // All workers have ended.
    void drop_all()
    {
        shared->returned.store(nullptr);
        while (!unreturned.empty())
            free_sent(*unreturned.begin());
        is_alone = true;
    }
    // The object whose memory was lent to that worker and has this address, or None. It keeps the
    // memory in place after the worker's end.
    nb::object lent(int32_t number, uint64_t address) const
    {
        for (const Sent *sent : unreturned)
            if (sent->taker.load() == number || sent == shared->setup)
                for (size_t i = 0; i < sent->part_list.size(); i++)
                    if (address - sent->part_list[i].address < sent->part_list[i].bytes)
                        return nb::borrow(sent->views[i].obj);
        return nb::none();
    }
    void give_back(Message *message) override
    {
        int32_t number = message->taker.load();
        uint64_t bytes = message->part_bytes + message->text_bytes;
        push(*message->returned, message); // from here on it is its sender's
        if (bytes >= MUCH && number >= 0)
            wake(static_cast<uint32_t>(number));
    }

  private:
    bool wake(uint32_t number)
    {
        std::atomic<uint32_t> &asleep = shared->seats[number].asleep;
        if (!asleep.load() || !asleep.exchange(0))
            return false;
        shared->awake.fetch_add(1);
        ring(sockets[number]);
        return true;
    }
    void wake_one()
    {
        for (uint32_t i = 0; i < shared->seat_count; i++)
            if (wake(i))
                return;
    }

    Shared *shared;
    std::vector<int> sockets; // by seat
    Spinner spinner;
    bool is_alone = true;
};

} // namespace

} // namespace pools

void add_dispatcher(nb::module_ &module)
{
    using pools::Dispatcher;
    nb::class_<Dispatcher, pools::End>(module, "Dispatcher")
        .def(nb::init<uint32_t, uint32_t, uint32_t>(), nb::arg("seats"), nb::arg("cells"),
             nb::arg("cpus"))
        .def_prop_ro("address", &Dispatcher::address)
        .def("set_setup", &Dispatcher::set_setup, nb::arg("text"), nb::arg("buffers"))
        .def("seat", &Dispatcher::seat, nb::arg("number"), nb::arg("socket"))
        .def("post", &Dispatcher::post, nb::arg("kind"), nb::arg("number"), nb::arg("text"),
             nb::arg("buffers").none())
        .def(
            "collect",
            [](nb::handle_t<Dispatcher> self, nb::list list) {
                nb::cast<Dispatcher &>(self).collect(self, std::move(list));
            },
            nb::arg("list"))
        .def("watch", &Dispatcher::watch)
        .def("sleep", &Dispatcher::sleep)
        .def("woken", &Dispatcher::woken)
        .def("close", &Dispatcher::close)
        .def("abandon", &Dispatcher::abandon)
        .def("drop", &Dispatcher::drop, nb::arg("number"))
        .def("drop_all", &Dispatcher::drop_all)
        .def("lent", &Dispatcher::lent, nb::arg("number"), nb::arg("address"));
}
