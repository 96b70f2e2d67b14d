// python/core/messages.hpp: sending and receiving messages, common to both ends of a pool.
#pragma once

#include "errors.hpp"
#include "pools.hpp"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

namespace pools
{

// A message of ours with what keeps its memory alive. Freed when it was returned.
struct Sent : Message {
    Py_buffer text_view;
    std::vector<Py_buffer> views;
    std::vector<Part> part_list;
};

// One end of a pool. Everything is called with the interpreter's lock held.
class End
{
  public:
    End() = default;
    End(const End &) = delete;
    End &operator=(const End &) = delete;
    virtual ~End() = default;

    // Frees what receivers have returned.
    void sweep();
    // Gives a message back to its sender, and wakes that if much memory becomes free.
    virtual void give_back(Message *message) = 0;

  protected:
    Sent *make(uint32_t kind, uint64_t number, nb::handle text, nb::handle buffers);
    void free_sent(Sent *sent);

    List *returned = nullptr;              // where messages of ours come back to
    std::unordered_set<Sent *> unreturned; // ours
};

// A message of the other end: a Python object, which gives it back when nothing refers to it or to
// memory that was made of it.
class Received
{
  public:
    Received(Message *message, nb::object end) : message(message), end(std::move(end))
    {
    }
    Received(const Received &) = delete;
    Received &operator=(const Received &) = delete;
    ~Received();

    Message *message;
    nb::object end;
    nb::object memory;        // what holds the sender's memory, set from Python
    bool is_borrowed = false; // never given back
};

// The object for a message, which `end` (an End) received.
nb::object received(Message *message, nb::handle end);

// Wakes who polls the other end of the socket.
void ring(int socket);

// Polls `is_there` without the interpreter's lock. The time that is spent adapts: longer after
// success, shorter after failure.
class Spinner
{
  public:
    template <typename Test> bool operator()(Test &&is_there);

  private:
    int64_t budget_ns = MOST_NS;
    static constexpr int64_t MOST_NS = 100000, LEAST_NS = 2000;
    static int64_t now_ns();
};

template <typename Test> bool Spinner::operator()(Test &&is_there)
{
    const int64_t end = now_ns() + budget_ns;
    bool found = false;
    {
        nb::gil_scoped_release unlocked;
        do
            for (int i = 0; i < 32 && !found; i++) {
                found = is_there();
                __builtin_ia32_pause();
            }
        while (!found && now_ns() < end);
    }
    budget_ns = found ? std::min(budget_ns * 2, MOST_NS) : std::max(budget_ns / 2, LEAST_NS);
    return found;
}

} // namespace pools
