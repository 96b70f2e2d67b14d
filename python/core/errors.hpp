// python/core/errors.hpp: error numbers of onespace.h as Python exceptions, and waits that Ctrl-C
// interrupts.
#pragma once

#include <nanobind/nanobind.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

namespace nb = nanobind;

namespace errors
{

// Throws the exception for a negative result: TimeoutError, onespace.OwnerEnded, otherwise OSError
// with that number, which Python maps to PermissionError, FileNotFoundError and so on.
[[noreturn]] void fail(int result, const std::string &message);

// Throws an exception of a Python class.
[[noreturn]] void fail_with(PyObject *type, const std::string &message);

// The text as C reads it. C takes a NUL for the end, so that two names could become one: throws
// ValueError, as Python's own functions do. `what` says in the message what the text is.
const char *c_text(const std::string &text, const char *what);

// A deadline from a Python timeout: seconds from now; None: never.
class Deadline
{
  public:
    explicit Deadline(std::optional<double> seconds);
    // Milliseconds of the next wait: the remaining time, at most `slice`, so that signals are
    // handled.
    int next_wait(int slice) const;
    bool passed() const;

  private:
    std::optional<std::chrono::steady_clock::time_point> end;
};

// After some hundred nanoseconds.
template <typename Wait> int look_again(Wait &&wait)
{
    for (int i = 0; i < 16; i++)
        __builtin_ia32_pause();
    return wait(0);
}

// Calls `wait(milliseconds)` without the interpreter's lock until it returns something other than
// -ETIMEDOUT, or the time is over. Python's signal handlers run in between. Polls as long as a
// channel does before it sleeps: two programs that answer each other within that time never sleep,
// which saves the cost of a wake-up.
template <typename Wait> int wait_for(const Deadline &deadline, Wait &&wait)
{
    constexpr int SLICE_MS = 100;
    constexpr std::chrono::microseconds LOOKING(100);
    int result = wait(0); // often there is nothing to wait for
    while (result == -ETIMEDOUT && !deadline.passed()) {
        {
            nb::gil_scoped_release unlocked;
            const auto until = std::chrono::steady_clock::now() + LOOKING;
            while (result == -ETIMEDOUT && std::chrono::steady_clock::now() < until)
                result = look_again(wait);
            if (result == -ETIMEDOUT)
                result = wait(deadline.next_wait(SLICE_MS));
        }
        if (result == -ETIMEDOUT && PyErr_CheckSignals() != 0)
            throw nb::python_error();
    }
    return result;
}

} // namespace errors
