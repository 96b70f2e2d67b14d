// python/core/worker.cpp: a worker's end of a pool.
#include "messages.hpp"
#include "parts.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>

namespace pools
{

namespace
{

class Worker : public End
{
  public:
    // The socket's other end is the parent's; it is closed when the parent ends or executes another
    // program. `process`: a descriptor of the parent's process, or -1; it tells of the parent's end
    // even if a child of the parent keeps the socket open.
    Worker(uint64_t address, int32_t number, int socket, int process)
        : shared(reinterpret_cast<Shared *>(address)), number(number), socket(socket),
          process(process)
    {
        if (std::memcmp(shared->magic, MAGIC, sizeof(MAGIC)) != 0 ||
            shared->size != sizeof(*shared))
            errors::fail_with(PyExc_RuntimeError,
                              "this worker and its parent use different versions of the package "
                              "onespace: start the program again");
        returned = &back;
    }

    nb::object setup(nb::handle_t<Worker> self)
    {
        nb::object result = received(shared->setup, self);
        nb::inst_ptr<Received>(result)->is_borrowed = true;
        return result;
    }
    // The next job; None: the pool is closed, or the parent is gone.
    nb::object take(nb::handle_t<Worker> self)
    {
        for (;;) {
            sweep();
            if (is_abandoned())
                return nb::none();
            if (Message *message = take_job(*shared)) {
                message->taker.store(number);
                return received(message, self);
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
    void send(uint32_t kind, uint64_t job, nb::handle text, nb::handle buffers)
    {
        sweep();
        Sent *sent = make(kind, job, text, buffers);
        sent->taker.store(number);
        push(shared->arrived, sent);
        if (shared->watchers.load() == 0)
            wake_parent();
    }
    void give_back(Message *message) override
    {
        uint64_t bytes = message->part_bytes + message->text_bytes;
        push(*message->returned, message); // from here on it is its sender's
        if (bytes >= MUCH)
            wake_parent();
    }

  private:
    void wake_parent()
    {
        if (shared->asleep.load() && shared->asleep.exchange(0))
            ring(socket);
    }
    bool is_work() const
    {
        return shared->head.load() != shared->tail.load() || shared->closing.load() || back.load();
    }
    // Only if there is a CPU for each worker that is awake, and one for the parent.
    bool poll_for_work()
    {
        if (shared->awake.load() >= static_cast<int32_t>(shared->cpus))
            return false;
        shared->pollers.fetch_add(1);
        bool found = spinner([this] { return is_work(); });
        use_poller(*shared);
        return found;
    }
    // False: the parent is gone.
    bool sleep()
    {
        std::atomic<uint32_t> &asleep = shared->seats[number].asleep;
        shared->awake.fetch_sub(1);
        asleep.store(1);
        bool alive = true;
        while (alive && asleep.load() && !is_work())
            alive = wait_for_bell();
        if (asleep.exchange(0))
            shared->awake.fetch_add(1); // else it was counted by who woke us
        return alive;
    }
    bool wait_for_bell()
    {
        struct pollfd polled[] = {{socket, POLLIN, 0}, {process, POLLIN, 0}};
        int result;
        {
            nb::gil_scoped_release unlocked;
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
    List back{nullptr}; // our messages that the parent has returned
    Spinner spinner;
};

} // namespace

} // namespace pools

void add_worker(nb::module_ &module)
{
    using pools::Worker;
    nb::class_<Worker, pools::End>(module, "Worker")
        .def(nb::init<uint64_t, int32_t, int, int>(), nb::arg("address"), nb::arg("number"),
             nb::arg("socket"), nb::arg("process"))
        .def("setup",
             [](nb::handle_t<Worker> self) { return nb::cast<Worker &>(self).setup(self); })
        .def("take", [](nb::handle_t<Worker> self) { return nb::cast<Worker &>(self).take(self); })
        .def("is_abandoned", &Worker::is_abandoned)
        .def("send", &Worker::send, nb::arg("kind"), nb::arg("number"), nb::arg("text"),
             nb::arg("buffers").none());
}
