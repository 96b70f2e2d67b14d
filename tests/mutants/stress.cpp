// tests/mutants/stress.cpp: every wait and order of onespace/sync at work, with delays, on threads.
// Ends with a status other than 0 when a result is wrong; ThreadSanitizer tells of races. For
// tests/mutants/run; small, since it is compiled for every mutant.
#include <cstdio>
#include <cstdlib>
#include <onespace/sync.hpp>
#include <onespace/sync/threads.hpp>
#include <thread>

namespace os = onespace::sync;

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "wrong: %s\n", what);
        _exit(1);
    }
}

static void delay(std::uint64_t &random)
{
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    if (random % 8 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random / 8 % 60));
    else if (random % 8 == 1)
        std::this_thread::yield();
}

template <class Barrier>
static void try_barrier(os::team &team, std::uint64_t &random, Barrier barrier)
{
    auto cells = team.allocate(sizeof(long));
    for (long round = 1; round <= 60; round++) {
        delay(random);
        *cells.at<long>(team.rank()) = round;
        barrier.wait();
        for (int i = 0; i < team.size(); i++)
            expect(*cells.at<long>(i) == round, "barrier");
        barrier.wait();
    }
}

static void try_collectives(os::team &team, std::uint64_t &random, os::algorithm how)
{
    os::collectives<> all(team, how, 1024);
    int size = team.size(), rank = team.rank();
    for (int round = 0; round < 40; round++) {
        delay(random);
        expect(all.allreduce(rank + round, std::plus<>()) == size * (size - 1) / 2 + size * round,
               "allreduce");
        bool is_far = round % 10 == 9;                 // by more slots than there are
        for (int i = 0; i < (is_far ? 200 : 6); i++) { // the root runs ahead
            if (rank && (!is_far || i % 50 == 0))
                delay(random);
            expect(all.broadcast(rank ? -1 : round + i, 0) == round + i, "broadcast");
        }
        std::vector<int> mine(200, rank + round), sums(200);
        all.allreduce(std::span<const int>(mine), std::span(sums), std::plus<>());
        mine.assign(200, -7); // it is the caller's own again
        expect(sums[0] == sums[199] && sums[0] == size * (size - 1) / 2 + size * round, "span");
        delay(random);
        std::vector<int> data(200, rank == 1 ? round : -1);
        all.broadcast(std::span(data), 1);
        expect(data[0] == round && data[199] == round, "span broadcast");
        data.assign(200, -9);
        delay(random);
        int root = round % size;
        std::vector<int> part(3000, rank + round), there(rank == root ? size * part.size() : 0);
        all.gather(std::span<const int>(part), std::span(there), root);
        part.assign(part.size(), -8);
        for (std::size_t i = 0; i < there.size(); i++)
            expect(there[i] == static_cast<int>(i / part.size()) + round, "gather");
    }
}

static void work(os::thread_group &group, int rank)
{
    os::team team = group.join(rank);
    std::uint64_t random = 88172645463325252u + rank;
    for (int round = 0; round < 20; round++) {
        delay(random);
        auto all = team.exchange(rank + round);
        for (int i = 0; i < team.size(); i++)
            expect(all[i] == i + round, "exchange");
    }
    try_barrier(team, random, os::barrier<>(team, 2));
    try_barrier(team, random, os::barrier<os::futex>(team, 2));
    for (auto how : {os::algorithm::flat, os::algorithm::doubling, os::algorithm::tree})
        try_collectives(team, random, how);
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 4;
    for (bool direct : {true, false}) {
        os::thread_group group(size, direct);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < size; rank++)
            threads.emplace_back([&, rank] { work(group, rank); });
        for (auto &thread : threads)
            thread.join();
    }
    puts("right");
}
