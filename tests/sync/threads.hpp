// tests/sync/threads.hpp: runs something on a team of threads.
#ifndef ONESPACE_TESTS_SYNC_THREADS_HPP
#define ONESPACE_TESTS_SYNC_THREADS_HPP

#include <exception>
#include <gtest/gtest.h>
#include <onespace/sync/threads.hpp>
#include <thread>

namespace os = onespace::sync;

// Calls work(team) on each of `size` threads, and rethrows the exception of the first that failed.
template <class Work> void on_threads(int size, Work work, bool direct = true)
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

#endif
