// python/core/errors.cpp: see errors.hpp.
#include "errors.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>

namespace errors
{

void fail_with(PyObject *type, const std::string &message)
{
    PyErr_SetString(type, message.c_str());
    throw nb::python_error();
}

void fail(int result, const std::string &message)
{
    if (result == -ETIMEDOUT)
        fail_with(PyExc_TimeoutError, message);
    nb::object type = nb::borrow(PyExc_OSError);
    if (result == -EOWNERDEAD)
        type = nb::module_::import_("onespace._errors").attr("OwnerEnded");
    nb::object error = type(-result, message);
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

const char *c_text(const std::string &text, const char *what)
{
    if (text.find('\0') != std::string::npos)
        fail_with(PyExc_ValueError, std::string("embedded null byte in ") + what);
    return text.c_str();
}

Deadline::Deadline(std::optional<double> seconds)
{
    constexpr double LONGEST = 1e9; // seconds; more could overflow the clock's arithmetic
    if (seconds && !(*seconds >= 0))
        fail_with(PyExc_ValueError,
                  "timeout is negative: give seconds, or None to wait without limit");
    if (seconds && *seconds < LONGEST)
        end = std::chrono::steady_clock::now() +
              std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                  std::chrono::duration<double>(*seconds));
}

bool Deadline::passed() const
{
    return end && std::chrono::steady_clock::now() >= *end;
}

int Deadline::next_wait(int slice) const
{
    if (!end)
        return slice;
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*end - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<long>(left.count(), 0, slice));
}

} // namespace errors
