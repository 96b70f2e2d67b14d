// tests/consumer/sync.cpp: the installed synchronisation headers need no library.
#include <onespace/sync.hpp>
#include <onespace/sync/threads.hpp>

#include <iostream>
#include <thread>

int main()
{
    onespace::sync::thread_group group(2);
    int cells[2] = {}, sums[2] = {};
    auto work = [&](int rank) {
        auto team = group.join(rank);
        onespace::sync::barrier barrier(team);
        cells[rank] = rank + 1;
        barrier.wait();
        sums[rank] = cells[0] + cells[1];
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    std::cout << "sync consumer: " << sums[0] << " " << sums[1] << "\n";
    return sums[0] == 3 && sums[1] == 3 ? 0 : 1;
}
