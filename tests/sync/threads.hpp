// tests/sync/threads.hpp: runs something on a team of threads.
#ifndef ONESPACE_TESTS_SYNC_THREADS_HPP
#define ONESPACE_TESTS_SYNC_THREADS_HPP

#include <functional>
#include <gtest/gtest.h>
#include <onespace/sync/threads.hpp>

namespace os = onespace::sync;

// Calls work(team) on each of `size` threads, and rethrows the exception of the first that failed.
// No template, since compiling one for each test took longer than all else.
void on_threads(int size, const std::function<void(os::team &)> &work, bool direct = true);

#endif
