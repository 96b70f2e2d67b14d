// python/core/module.hpp: what the sources of the extension share: its parts, Python exceptions,
// and waits that Ctrl-C interrupts.
#pragma once

#include <nanobind/nanobind.h>
#include <onespace/sync/wait.hpp>

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

namespace nb = nanobind;

// The part of the module that each source defines.
void add_tasks(nb::module_ &module);
void add_arrays(nb::module_ &module);
void add_channels(nb::module_ &module);
void add_pool(nb::module_ &module);

// The base of classes whose objects cannot be copied.
struct NonCopyable {
    NonCopyable() = default;
    NonCopyable(const NonCopyable &) = delete;
    NonCopyable &operator=(const NonCopyable &) = delete;
};

// Releases the interpreter's lock in a scope. Python before 3.14 calls pthread_exit in a daemon
// thread that acquires the lock while the interpreter exits. The stack cannot be unwound through
// nanobind, which would abort the program: the thread waits here for the end of the process, as
// with Python 3.14.
class GilRelease : private NonCopyable
{
  public:
    GilRelease() : state(PyEval_SaveThread())
    {
    }
    ~GilRelease()
    {
        try {
            PyEval_RestoreThread(state);
        } catch (...) { // of pthread_exit, and never left
            for (;;)
                pause();
        }
    }

  private:
    PyThreadState *state;
};

template <typename Number> nb::tuple tuple_of(const Number *numbers, unsigned count)
{
    nb::object result = nb::steal(PyTuple_New(count));
    for (unsigned i = 0; i < count; i++)
        NB_TUPLE_SET_ITEM(result.ptr(), i, PyLong_FromLongLong(static_cast<long long>(numbers[i])));
    return nb::borrow<nb::tuple>(result);
}

namespace errors
{

// Raises the exception for a negative result of onespace.h: TimeoutError, onespace.OwnerEnded, or
// OSError with that number, which Python maps to PermissionError, FileNotFoundError and so on.
[[noreturn]] void raise_errno(int result, const std::string &message);

// Raises an exception of a Python class.
[[noreturn]] void raise(PyObject *type, const std::string &message);

// The text as a C string. Raises ValueError if it contains a null byte, as Python's own functions
// do: C would read a shorter text. `what` names the text in the message.
const char *c_string(const std::string &text, const char *what);

// A deadline from a Python timeout: seconds from now; None: never.
class Deadline
{
  public:
    explicit Deadline(std::optional<double> seconds);
    // Milliseconds of the next wait: the remaining time, at most `slice_ms`, so that signals are
    // handled.
    int wait_ms(int slice_ms) const;
    bool has_passed() const;

  private:
    std::optional<std::chrono::steady_clock::time_point> end;
};

// Calls `wait(milliseconds)` without the interpreter's lock until it returns a result other than
// -ETIMEDOUT, or the deadline has passed. Python's signal handlers run in between. Polls as long as
// a channel does before it sleeps: two programs that answer each other within that time never
// sleep, which saves the cost of a wake-up.
template <typename Wait> int wait_for(const Deadline &deadline, Wait &&wait)
{
    constexpr int SLICE_MS = 100, PAUSES_PER_POLL = 16; // some hundred nanoseconds
    constexpr std::chrono::microseconds POLL_TIME(100);
    int result = wait(0); // often succeeds at once
    while (result == -ETIMEDOUT && !deadline.has_passed()) {
        {
            GilRelease unlocked;
            const auto poll_end = std::chrono::steady_clock::now() + POLL_TIME;
            while (result == -ETIMEDOUT && std::chrono::steady_clock::now() < poll_end) {
                for (int i = 0; i < PAUSES_PER_POLL; i++)
                    onespace::sync::relax();
                result = wait(0);
            }
            if (result == -ETIMEDOUT)
                result = wait(deadline.wait_ms(SLICE_MS));
        }
        if (result == -ETIMEDOUT && PyErr_CheckSignals() != 0)
            throw nb::python_error();
    }
    return result;
}

} // namespace errors
