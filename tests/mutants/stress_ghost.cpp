// tests/mutants/stress_ghost.cpp: every wait of the ghost update at work, with delays, on threads:
// as stress.cpp. Rank 0 sends to all and gets nothing, so that only the waits hold it back; the
// others form a ring, and the last one is slow.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <onespace/sync/ghost.hpp>
#include <onespace/sync/threads.hpp>
#include <thread>

namespace os = onespace::sync;

static constexpr int count = 600, updates = 150; // points sent to each, and how often

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "wrong: %s\n", what);
        _exit(1);
    }
}

static void delay(std::uint64_t &random, bool slow)
{
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    if (random % (slow ? 4 : 16) == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random / 16 % 80));
}

static std::vector<int> points(int first)
{
    std::vector<int> list(count);
    std::iota(list.begin(), list.end(), first);
    return list;
}

// Own points are 0 to count - 1; then the ghosts, of rank 0 and of the one before in the ring.
static std::vector<os::ghost_neighbour> lists_of(int rank, int size)
{
    std::vector<os::ghost_neighbour> lists;
    auto with = [&](int other) -> os::ghost_neighbour & {
        for (auto &one : lists)
            if (one.rank == other)
                return one;
        return lists.emplace_back(os::ghost_neighbour{other, {}, {}});
    };
    if (rank == 0)
        for (int i = 1; i < size; i++)
            with(i).send = points(0);
    else
        with(0).receive = points(count);
    if (rank > 0 && size > 2) {
        with(rank % (size - 1) + 1).send = points(0);
        with((rank + size - 3) % (size - 1) + 1).receive = points(2 * count);
    }
    return lists;
}

static void work(os::thread_group &group, int rank, int size, os::ghost_path path)
{
    os::team team = group.join(rank);
    os::ghost_plan<long> plan(team, lists_of(rank, size), {3 * count}, path);
    std::vector<long> vector(3 * count);
    std::uint64_t random = 88172645463325252u + rank;
    int before = (rank + size - 3) % (size > 1 ? size - 1 : 1) + 1;
    for (long k = 1; k <= updates; k++) {
        for (int i = 0; i < count; i++)
            vector[i] = k * 100 + rank;
        plan.begin(vector);
        delay(random, rank == size - 1);
        plan.end();
        for (int i = 0; i < count && rank > 0; i++) {
            expect(vector[count + i] == k * 100, "ghosts of rank 0");
            expect(size < 3 || vector[2 * count + i] == k * 100 + before, "ghosts of the ring");
        }
    }
}

// Nobody is late: what has been sent must be seen when the flag is. 2.4 KB, which pass by memory.
static void hurry(os::thread_group &group, int rank, int size)
{
    constexpr int few = 300;
    os::team team = group.join(rank);
    std::vector<int> list(few);
    std::iota(list.begin(), list.end(), 0);
    std::vector<os::ghost_neighbour> lists;
    if (rank == 0)
        lists.push_back({1, list, {}});
    if (rank == 1)
        lists.push_back({0, {}, list});
    os::ghost_plan<long> plan(team, lists, {few}, os::ghost_path::streamed);
    std::vector<long> vector(few);
    for (long k = 1; k <= 200000 && rank < 2; k++) {
        if (rank == 0)
            std::fill(vector.begin(), vector.end(), k);
        plan.update(vector);
        for (long value : vector)
            expect(value == k, "ghosts in a hurry");
    }
    team.exchange(size);
}

template <class Work> static void on_threads(int size, Work work)
{
    os::thread_group group(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; rank++)
        threads.emplace_back([&, rank] { work(group, rank, size); });
    for (auto &thread : threads)
        thread.join();
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 4;
    for (auto path : {os::ghost_path::direct, os::ghost_path::buffers})
        on_threads(size, [path](auto &...with) { work(with..., path); });
#ifndef __SANITIZE_THREAD__ // which sees no such stores, and is slow
    on_threads(size, hurry);
#endif
    puts("right");
}
