// tests/sync/threads.cpp: see threads.hpp.
#include "threads.hpp"

#include <exception>
#include <thread>

void on_threads(int size, const std::function<void(os::team &)> &work, bool direct)
{
    os::thread_group group(size, direct);
    std::vector<std::exception_ptr> failures(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; rank++)
        threads.emplace_back([&, rank] {
            try {
                os::team team = group.join(rank);
                work(team);
            } catch (...) {
                failures[rank] = std::current_exception();
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (auto &failure : failures)
        if (failure)
            std::rethrow_exception(failure);
}
