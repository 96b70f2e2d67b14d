// python/core/module.cpp: the extension onespace._core, the part of the package that calls
// libonespace; its exceptions and deadlines.
#include "module.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>

namespace errors
{

// Names of files in it may be no UTF-8.
static nb::object decoded(const std::string &message)
{
    return nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(message.data(), static_cast<Py_ssize_t>(message.size())));
}

void raise(PyObject *type, const std::string &message)
{
    PyErr_SetObject(type, decoded(message).ptr());
    throw nb::python_error();
}

void raise_errno(int result, const std::string &message)
{
    if (result == -ETIMEDOUT)
        raise(PyExc_TimeoutError, message);
    nb::object type = nb::borrow(PyExc_OSError);
    if (result == -EOWNERDEAD)
        type = nb::module_::import_("onespace.tasks").attr("OwnerEnded");
    nb::object error = type(-result, decoded(message));
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

const char *c_string(const std::string &text, const char *what)
{
    if (text.find('\0') != std::string::npos)
        raise(PyExc_ValueError, std::string("embedded null byte in ") + what);
    return text.c_str();
}

Deadline::Deadline(std::optional<double> seconds)
{
    constexpr double MAX_SECONDS = 1e9; // seconds; more could overflow the clock's arithmetic
    if (seconds && !(*seconds >= 0))
        raise(PyExc_ValueError, "timeout is negative: give seconds, or None to wait without limit");
    if (seconds && *seconds < MAX_SECONDS)
        end = std::chrono::steady_clock::now() +
              std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                  std::chrono::duration<double>(*seconds));
}

bool Deadline::has_passed() const
{
    return end && std::chrono::steady_clock::now() >= *end;
}

int Deadline::wait_ms(int slice_ms) const
{
    if (!end)
        return slice_ms;
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*end - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<long>(left.count(), 0, slice_ms));
}

} // namespace errors

#define TEXT_OF(value)                    #value
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

NB_MODULE(_core, module)
{
    // The version that is linked in: packaging/sbom finds this text in the file.
    module.attr("__nanobind__") =
        "nanobind " VERSION_TEXT(NB_VERSION_MAJOR, NB_VERSION_MINOR, NB_VERSION_PATCH);
    // A thread or a forked child may end the interpreter while views or pools exist: print nothing.
    nanobind::set_leak_warnings(false);
    add_tasks(module);
    add_arrays(module);
    add_channels(module);
    add_pool(module);
}
