// python/core/channels.cpp: see channels.hpp.
#include "channels.hpp"
#include "parts.hpp"

#include <nanobind/stl/string.h>

#include <cstring>

namespace channels
{

void fail(int result, const std::string &name, const char *late)
{
    if (result == -ETIMEDOUT)
        errors::fail(result, "channel '" + name + "': " + late);
    const std::string message = onespace_insitu_message();
    switch (result) {
    case -ENOENT:
        errors::fail_with(PyExc_LookupError, message);
    case -EPROTOTYPE:
        errors::fail_with(PyExc_TypeError, message);
    case -EINVAL:
    case -EFAULT:
        errors::fail_with(PyExc_ValueError, message);
    case -EALREADY:
        errors::fail_with(PyExc_RuntimeError, message);
    case -ENODATA:
        errors::fail_with(PyExc_EOFError, message);
    default:
        errors::fail(result, message.empty() ? "channel '" + name + "': " + std::strerror(-result)
                                             : message);
    }
}

namespace
{

// Never freed: needed until the last array is collected.
struct Numpy {
    PyObject *ndarray, *dtypes[ONESPACE_INSITU_FLOAT64 + 1];
    Numpy()
    {
        static const char *const names[] = {nullptr, "i1", "i2", "i4", "i8", "u1",
                                            "u2",    "u4", "u8", "f4", "f8"};
        nb::module_ numpy = nb::module_::import_("numpy");
        ndarray = nb::object(numpy.attr("ndarray")).release().ptr();
        dtypes[0] = nullptr;
        for (int type = ONESPACE_INSITU_INT8; type <= ONESPACE_INSITU_FLOAT64; type++)
            dtypes[type] = nb::object(numpy.attr("dtype")(names[type])).release().ptr();
    }
};

const Numpy &numpy()
{
    static const Numpy *loaded = new Numpy;
    return *loaded;
}

template <typename Number> nb::object tuple_of(const Number *numbers, unsigned count)
{
    nb::object result = nb::steal(PyTuple_New(count));
    for (unsigned i = 0; i < count; i++)
        NB_TUPLE_SET_ITEM(result.ptr(), i, PyLong_FromLongLong(static_cast<long long>(numbers[i])));
    return result;
}

// The type of a buffer's format; ANY if channels have no such type.
int type_of(const char *format, Py_ssize_t size)
{
    const char *at = format ? format : "B";
    if (*at == '@' || *at == '=' || *at == '<' || ((*at == '>' || *at == '!') && size == 1))
        at++;
    int rank = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
    if (rank < 0 || !at[0] || at[1])
        return ONESPACE_INSITU_ANY;
    if (std::strchr("bhilqn", *at))
        return ONESPACE_INSITU_INT8 + rank;
    if (std::strchr("BHILQN", *at))
        return ONESPACE_INSITU_UINT8 + rank;
    if (*at == 'f' || *at == 'd')
        return *at == 'f' ? ONESPACE_INSITU_FLOAT32 : ONESPACE_INSITU_FLOAT64;
    return ONESPACE_INSITU_ANY;
}

struct Buffer { // released at the end of the block
    Py_buffer view;
    explicit Buffer(nb::handle data, const std::string &name)
    {
        if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_STRIDES | PyBUF_FORMAT) == 0)
            return;
        PyErr_Clear();
        errors::fail_with(PyExc_TypeError,
                          "array '" + name +
                              "' has no buffer of numbers that a channel could hand "
                              "out: give a NumPy array of int8 to float64");
    }
    ~Buffer()
    {
        PyBuffer_Release(&view);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
};

int get_elements(PyObject *self, Py_buffer *buffer, int flags)
{
    const Elements *elements = nb::inst_ptr<Elements>(self);
    return PyBuffer_FillInfo(buffer, self, elements->address,
                             static_cast<Py_ssize_t>(elements->bytes), 1, flags);
}

PyType_Slot elements_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(get_elements)},
                                {0, nullptr}};

} // namespace

nb::object dtype_of(int type)
{
    return nb::borrow(numpy().dtypes[type]);
}

nb::object make_array(const nb::object &elements, const onespace_insitu_array &array)
{
    nb::object shape = tuple_of(array.shape, array.dimensions),
               strides = tuple_of(array.strides, array.dimensions);
    PyObject *const arguments[] = {shape.ptr(), numpy().dtypes[array.type], elements.ptr(),
                                   nb::int_(0).release().ptr(), strides.ptr()};
    nb::object result = nb::steal(PyObject_Vectorcall(numpy().ndarray, arguments, 5, nullptr));
    Py_DECREF(arguments[3]);
    if (!result.is_valid())
        throw nb::python_error();
    return result;
}

void describe(nb::handle data, const std::string &name, onespace_insitu_array &array)
{
    Buffer buffer(data, name);
    const Py_buffer &view = buffer.view;
    array.type = type_of(view.format, view.itemsize);
    if (array.type == ONESPACE_INSITU_ANY)
        errors::fail_with(
            PyExc_TypeError,
            "array '" + name + "' holds elements of format '" + (view.format ? view.format : "") +
                "', and channels hand out int8 to int64, uint8 to uint64, float32 and "
                "float64 in this machine's byte order: convert it with astype, or "
                "export it by name");
    if (view.ndim < 1 || view.ndim > ONESPACE_INSITU_DIMENSIONS)
        errors::fail_with(PyExc_ValueError, "array '" + name + "' has " +
                                                std::to_string(view.ndim) +
                                                " dimensions: channels hand out arrays of 1 to 4");
    array.address = view.buf;
    array.dimensions = static_cast<unsigned>(view.ndim);
    for (int i = 0; i < view.ndim; i++) {
        array.shape[i] = static_cast<uint64_t>(view.shape[i]);
        array.strides[i] = view.strides[i];
    }
}

} // namespace channels

void add_channels(nb::module_ &module)
{
    nb::class_<channels::Elements>(module, "Elements", nb::type_slots(channels::elements_slots));
    channels::add_producer(module);
    channels::add_consumer(module);
}
