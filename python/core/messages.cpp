// python/core/messages.cpp: see messages.hpp; and what Python sees of a received message.
#include "messages.hpp"

#include "parts.hpp"

#include <onespace.h>

#include <sys/socket.h>

#include <ctime>

namespace pools
{

namespace
{

constexpr uint64_t COPIED_BELOW = 4096; // bytes: sharing costs more than a copy

// Memory of a message, as a buffer. Keeps the message from being given back.
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

Message &of(nb::handle self)
{
    return *nb::inst_ptr<Received>(self)->message;
}

nb::object text_of(nb::handle_t<Received> self)
{
    const Message &message = of(self);
    return nb::cast(new Memory{nb::borrow(self), message.text, message.text_bytes, true},
                    nb::rv_policy::take_ownership);
}

nb::object copy_of(const Part &part, bool read_only)
{
    const char *bytes = reinterpret_cast<const char *>(part.address);
    Py_ssize_t size = static_cast<Py_ssize_t>(part.bytes);
    return nb::steal(read_only ? PyBytes_FromStringAndSize(bytes, size)
                               : PyByteArray_FromStringAndSize(bytes, size));
}

// The buffers for pickle.loads: those of fewer than `own` bytes are copies, and writable; other
// small ones are read-only copies, the rest is the sender's memory.
nb::list buffers_of(nb::handle_t<Received> self, bool writable, uint64_t own)
{
    const Message &message = of(self);
    nb::list buffers;
    for (uint64_t i = 0; i < message.part_count; i++) {
        const Part &part = message.parts[i];
        bool is_own = part.bytes < own, read_only = part.read_only || !writable;
        if (is_own || part.bytes < COPIED_BELOW)
            buffers.append(copy_of(part, read_only && !is_own));
        else
            buffers.append(
                nb::cast(new Memory{nb::borrow(self), part.address, part.bytes, read_only},
                         nb::rv_policy::take_ownership));
    }
    return buffers;
}

// The addresses of the buffers that are not copied.
nb::list addresses_of(nb::handle_t<Received> self)
{
    const Message &message = of(self);
    nb::list addresses;
    for (uint64_t i = 0; i < message.part_count; i++)
        if (message.parts[i].bytes >= COPIED_BELOW)
            addresses.append(message.parts[i].address);
    return addresses;
}

} // namespace

void ring(int socket)
{
    if (socket >= 0) /* full: it has been rung; closed: nobody is there */
        (void)!send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int64_t Spinner::now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

Received::~Received()
{
    if (!is_borrowed)
        nb::cast<End &>(end).give_back(message);
}

nb::object received(Message *message, nb::handle end)
{
    return nb::cast(new Received(message, nb::borrow(end)), nb::rv_policy::take_ownership);
}

Sent *End::make(uint32_t kind, uint64_t number, nb::handle text, nb::handle buffers)
{
    std::unique_ptr<Sent> sent(new Sent{});
    std::vector<nb::object> list;
    if (!buffers.is_none())
        for (nb::handle buffer : buffers)
            list.push_back(nb::borrow(buffer));
    sent->views.reserve(list.size());
    sent->part_list.reserve(list.size());
    if (PyObject_GetBuffer(text.ptr(), &sent->text_view, PyBUF_SIMPLE) != 0)
        throw nb::python_error();
    for (const nb::object &buffer : list) {
        Py_buffer view;
        if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_FULL_RO) != 0) {
            free_sent(sent.release());
            throw nb::python_error();
        }
        sent->views.push_back(view);
        sent->part_list.push_back({reinterpret_cast<uint64_t>(view.buf),
                                   static_cast<uint64_t>(view.len),
                                   static_cast<uint64_t>(view.readonly)});
        sent->part_bytes += static_cast<uint64_t>(view.len);
    }
    sent->kind = kind;
    sent->number = number;
    sent->returned = returned;
    sent->text = reinterpret_cast<uint64_t>(sent->text_view.buf);
    sent->text_bytes = static_cast<uint64_t>(sent->text_view.len);
    sent->parts = sent->part_list.data();
    sent->part_count = sent->part_list.size();
    sent->taker = -1;
    unreturned.insert(sent.get());
    return sent.release();
}

void End::free_sent(Sent *sent)
{
    unreturned.erase(sent);
    PyBuffer_Release(&sent->text_view); /* may run code of any object that it was the last of */
    for (Py_buffer &view : sent->views)
        PyBuffer_Release(&view);
    delete sent;
}

void End::sweep()
{
    if (returned->load(std::memory_order_relaxed) == nullptr)
        return;
    Message *next = nullptr;
    for (Message *message = returned->exchange(nullptr); message; message = next) {
        next = message->next;
        free_sent(static_cast<Sent *>(message));
    }
}

} // namespace pools

void add_messages(nb::module_ &module)
{
    using namespace pools;
    nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots))
        .def_ro("address", &Memory::address)
        .def_ro("bytes", &Memory::bytes);
    nb::class_<Received>(module, "Received")
        .def_prop_ro("kind", [](const Received &self) { return self.message->kind; })
        .def_prop_ro("number", [](const Received &self) { return self.message->number; })
        .def_prop_ro("sender", [](const Received &self) { return self.message->taker.load(); })
        .def_prop_ro("text", text_of)
        .def_prop_ro("addresses", addresses_of)
        .def("buffers", buffers_of, nb::arg("writable"), nb::arg("own"))
        .def_rw("memory", &Received::memory, nb::arg().none());
    nb::class_<End>(module, "End").def("sweep", &End::sweep);
    module.def(
        "hold", [](int id) { return onespace_hold(id); }, nb::arg("id"));
    module.def(
        "release", [](int id) { return onespace_release(id); }, nb::arg("id"));
}
