// python/core/pools.hpp: the memory through which a pool and its workers exchange messages.
//
// A message is a pickle and the buffers that it refers to. It stays in its sender's memory: what is
// passed on is its address, and the receiver returns it when nothing refers to it any more. The
// parent of the pool owns struct Shared; workers get its address. Whoever ends in the middle of
// anything here leaves every list consistent: a message is linked by one compare-and-swap.
//
//   job      parent -> Shared.cells, a bounded queue that all workers take from
//   result   worker -> Shared.arrived
//   return   receiver -> Message.returned, a list in the sender's memory
//
// Sleeping. A side that finds nothing sets its word `asleep`, looks again, and polls its socket;
// who adds something and then finds the word set clears it and writes to that socket. Both are
// sequentially consistent, so that at least one of the two sees the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pools
{

struct Part { // a buffer of a message
    uint64_t address, bytes;
    uint64_t read_only;
};

struct Message {
    Message *next;                    // in the list that it is in; owned by who unlinks it
    std::atomic<Message *> *returned; // its sender's list
    uint64_t number;                  // of the job
    uint64_t text, text_bytes;        // the pickle
    const Part *parts;
    uint64_t part_count, part_bytes;
    uint32_t kind;              // Python's; see onespace/pools/messages.py
    std::atomic<int32_t> taker; // seat of the worker that took it or sent it; -1: none yet
};

using List = std::atomic<Message *>; // the newest first

inline void push(List &list, Message *message)
{
    message->next = list.load(std::memory_order_relaxed);
    while (!list.compare_exchange_weak(message->next, message))
        ;
}

struct Seat { // of a worker
    alignas(64) std::atomic<uint32_t> asleep;
};

struct Cell { // of the queue of jobs; see push_job
    std::atomic<uint64_t> sequence;
    std::atomic<Message *> message;
};

constexpr char MAGIC[8] = "1sPool1";
constexpr uint64_t MUCH = 1 << 20; // bytes: to be freed now, not when its owner next looks

struct Shared {
    char magic[8];
    uint32_t size; // of this structure: another version of the package has another
    uint32_t cpus; // that the pool may use
    uint32_t seat_count;
    uint32_t cell_count; // a power of two
    Seat *seats;
    Cell *cells;
    Message *setup; // read by each worker when it starts, not returned
    alignas(64) List arrived;
    List returned;                   // the parent's jobs that workers are done with
    std::atomic<uint32_t> asleep;    // the parent's receiving thread
    std::atomic<uint32_t> watchers;  // threads of the parent that poll `arrived`
    std::atomic<uint32_t> closing;   // set by the parent: workers end when the queue is empty
    std::atomic<uint32_t> abandoned; // likewise: whatever is in the queue
    std::atomic<int32_t> awake;      // workers that are not asleep
    std::atomic<int32_t> pollers;    // workers that poll for a job; see use_poller
    alignas(64) std::atomic<uint64_t> tail; // written by the parent only
    alignas(64) std::atomic<uint64_t> head; // advanced by the worker that takes
};

// A bounded queue, one producer. Cell i holds sequence i when it is free for position i, and i + 1
// when the message of position i is in it.
inline bool push_job(Shared &shared, Message *message)
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

// A worker that polls adds one to `pollers`, and takes it back before it looks for jobs; the parent
// takes one for each job that it leaves to them, so that it wakes a sleeping worker for the next.
// Never more than there are workers polling; fewer only means that a worker is woken in vain.
inline bool use_poller(Shared &shared)
{
    int32_t count = shared.pollers.load();
    while (count > 0)
        if (shared.pollers.compare_exchange_weak(count, count - 1))
            return true;
    return false;
}

inline Message *take_job(Shared &shared)
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

} // namespace pools
