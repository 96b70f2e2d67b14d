// python/core/channels.cpp: channels (onespace/insitu.h): the end that publishes steps and the end
// that reads their arrays in place.
#include "module.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <onespace/insitu.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace channels
{
namespace
{

using Timeout = std::optional<double>;

// Raises the exception for a negative result of onespace/insitu.h; `timeout_message` is for
// -ETIMEDOUT.
void check(int result, const std::string &name, const char *timeout_message = "")
{
    if (result >= 0)
        return;
    if (result == -ETIMEDOUT)
        errors::raise_errno(result, "channel '" + name + "': " + timeout_message);
    const std::string message = onespace_insitu_message();
    switch (result) {
    case -ENOENT:
        errors::raise(PyExc_LookupError, message);
    case -EPROTOTYPE:
        errors::raise(PyExc_TypeError, message);
    case -EINVAL:
    case -EFAULT:
        errors::raise(PyExc_ValueError, message);
    case -EALREADY:
        errors::raise(PyExc_RuntimeError, message);
    case -ENODATA:
        errors::raise(PyExc_EOFError, message);
    default:
        errors::raise_errno(result, message.empty()
                                        ? "channel '" + name + "': " + std::strerror(-result)
                                        : message);
    }
}

// Marks a channel as busy: a handle is used by one thread at a time, and waits release the
// interpreter's lock.
class BusyGuard : private NonCopyable
{
  public:
    BusyGuard(bool &busy, const std::string &name) : busy(busy)
    {
        if (busy)
            errors::raise(PyExc_RuntimeError, "channel '" + name +
                                                  "' is in use by another thread: let each "
                                                  "thread open the channel itself");
        busy = true;
    }
    ~BusyGuard()
    {
        busy = false;
    }

  private:
    bool &busy;
};

// A hold on a member's memory.
struct MemoryHold : private NonCopyable {
    explicit MemoryHold(int owner) : owner(owner), is_held(onespace_hold(owner) == 0)
    {
    }
    ~MemoryHold()
    {
        if (is_held)
            (void)!onespace_release(owner);
    }
    int owner;
    bool is_held;
};

// The memory of an array from a channel. NumPy's arrays of it refer to this object.
struct ArrayMemory {
    void *address;
    uint64_t bytes;
    std::shared_ptr<MemoryHold> hold;
};

// ---- Arrays ----

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

// The import lets other threads have the interpreter lock, and a thread that waited for the guard
// of an initialised static would keep it. So two threads may both import, and one's result stays.
const Numpy &numpy()
{
    static const Numpy *loaded;
    if (!loaded) {
        const Numpy *mine = new Numpy;
        if (!loaded)
            loaded = mine;
    }
    return *loaded;
}

// The channel's type for a buffer's format; ANY if there is none.
int type_of_format(const char *format, Py_ssize_t size)
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

// While it exists, the object cannot be resized or closed.
struct Buffer : private NonCopyable {
    Py_buffer view{};
    Buffer(nb::handle data, const std::string &name)
    {
        if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_STRIDES | PyBUF_FORMAT) == 0)
            return;
        PyErr_Clear();
        errors::raise(PyExc_TypeError, "array '" + name +
                                           "' has no buffer of numbers: "
                                           "give a NumPy array of int8 to float64");
    }
    ~Buffer()
    {
        PyBuffer_Release(&view);
    }
};

int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    const ArrayMemory *elements = nb::inst_ptr<ArrayMemory>(self);
    return PyBuffer_FillInfo(buffer, self, elements->address,
                             static_cast<Py_ssize_t>(elements->bytes), 1, flags);
}

PyType_Slot array_memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(get_buffer)},
                                    {0, nullptr}};

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

void describe_buffer(const Py_buffer &view, const std::string &name, onespace_insitu_array &array)
{
    array.type = type_of_format(view.format, view.itemsize);
    if (array.type == ONESPACE_INSITU_ANY)
        errors::raise(PyExc_TypeError,
                      "array '" + name + "' holds elements of format '" +
                          (view.format ? view.format : "") +
                          "', and channels carry int8 to int64, uint8 to uint64, float32 and "
                          "float64 in this machine's byte order: convert it with astype, or "
                          "export it by name");
    if (view.ndim < 1 || view.ndim > ONESPACE_INSITU_DIMENSIONS)
        errors::raise(PyExc_ValueError, "array '" + name + "' has " + std::to_string(view.ndim) +
                                            " dimensions: channels carry arrays with 1 to 4");
    array.address = view.buf;
    array.dimensions = static_cast<unsigned>(view.ndim);
    bool has_strides = false;
    for (int i = 0; i < view.ndim; i++) {
        array.shape[i] = static_cast<uint64_t>(view.shape[i]);
        array.strides[i] = view.strides[i];
        has_strides |= view.strides[i] != 0;
    }
    // For the C interface strides of 0 are none: that of an array without gaps.
    if (!has_strides && view.len > view.itemsize)
        errors::raise(PyExc_ValueError, "array '" + name +
                                            "': with a stride of 0 bytes along dimension 0 its "
                                            "elements overlap");
}

// A program's end of a channel.
class End : private NonCopyable
{
  public:
    explicit End(const std::string &name) : name(name)
    {
    }
    std::string name;

  protected:
    void check_open() const
    {
        if (!handle)
            errors::raise(PyExc_ValueError, "channel '" + name + "' is closed");
    }
    onespace_insitu *handle = nullptr;
    bool busy = false;
};

// ---- The producer ----

class Producer : public End
{
  public:
    Producer(const std::string &name, const std::string &policy, unsigned depth, unsigned rank,
             unsigned ranks, unsigned consumers)
        : End(name)
    {
        struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
        const char *text = errors::c_string(name, "the name of a channel");
        options.policy = policy_of(policy);
        options.depth = depth;
        options.rank = rank;
        options.ranks = ranks;
        options.consumers = consumers;
        int result = onespace_init();
        if (result >= 0)
            result = onespace_insitu_create(text, &options, &handle);
        check(result, name);
        buffers_in_use.resize(std::max(depth, options.policy == ONESPACE_INSITU_COPY ? 4u : 1u));
    }
    ~Producer()
    {
        // If consumers still read the arrays, neither the arrays nor the channel are freed.
        if (handle && onespace_insitu_close(handle, 0) < 0)
            for (auto &set : buffers_in_use)
                for (auto &buffer : set)
                    (void)buffer.release();
    }

    // Returns false if the step is skipped.
    bool begin(uint64_t step, Timeout timeout)
    {
        BusyGuard guard(busy, name);
        check_open();
        int result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
            return onespace_insitu_begin(handle, step, ms);
        });
        check(result, name,
              "consumers still need the step whose arrays are reused next, or too few have "
              "opened the channel");
        // No consumer reads the arrays of this set any more.
        if (result == 0)
            buffers_in_use[published % buffers_in_use.size()].clear();
        return result == 0;
    }
    void put(const std::string &array_name, const nb::object &data, const std::string &units,
             const std::optional<std::vector<uint64_t>> &global_shape,
             const std::optional<std::vector<uint64_t>> &offset)
    {
        struct onespace_insitu_array array = {};
        BusyGuard guard(busy, name);
        check_open();
        auto buffer = std::make_unique<Buffer>(data, array_name);
        describe_buffer(buffer->view, array_name, array);
        array.name = errors::c_string(array_name, "the name of an array");
        array.units = errors::c_string(units, "the units of an array");
        copy_extents(global_shape, array.dimensions, array.global_shape, "global_shape");
        copy_extents(offset, array.dimensions, array.offset, "offset");
        check(onespace_insitu_put(handle, &array), name);
        buffers_in_use[published % buffers_in_use.size()].push_back(std::move(buffer));
    }
    void put_attribute(const std::string &attribute_name, const nb::object &value)
    {
        struct onespace_insitu_attribute attribute = {};
        std::string text;
        BusyGuard guard(busy, name);
        check_open();
        attribute.name = errors::c_string(attribute_name, "the name of an attribute");
        if (PyLong_Check(value.ptr())) {
            attribute.type = ONESPACE_INSITU_INTEGER;
            attribute.integer = PyLong_AsLongLong(value.ptr());
        } else if (PyUnicode_Check(value.ptr())) {
            text = nb::cast<std::string>(value);
            attribute.type = ONESPACE_INSITU_TEXT;
            attribute.text = errors::c_string(text, "the text of an attribute");
        } else {
            attribute.type = ONESPACE_INSITU_NUMBER;
            attribute.number = PyFloat_AsDouble(value.ptr());
        }
        if (PyErr_Occurred())
            throw nb::python_error();
        check(onespace_insitu_put_attribute(handle, &attribute), name);
    }
    void publish()
    {
        BusyGuard guard(busy, name);
        check_open();
        check(onespace_insitu_publish(handle), name);
        published++;
    }
    void close(Timeout timeout)
    {
        BusyGuard guard(busy, name);
        if (!handle)
            return;
        int result = errors::wait_for(errors::Deadline(timeout),
                                      [&](int ms) { return onespace_insitu_close(handle, ms); });
        check(result, name, "consumers have not taken and released all steps yet");
        handle = nullptr;
        for (auto &set : buffers_in_use)
            set.clear();
    }

  private:
    static int policy_of(const std::string &policy)
    {
        if (policy == "wait")
            return ONESPACE_INSITU_WAIT;
        if (policy == "skip")
            return ONESPACE_INSITU_SKIP;
        if (policy == "copy")
            return ONESPACE_INSITU_COPY;
        errors::raise(PyExc_ValueError,
                      "unknown policy '" + policy + "': give 'wait', 'skip' or 'copy'");
    }
    static void copy_extents(const std::optional<std::vector<uint64_t>> &given, unsigned dimensions,
                             uint64_t *numbers, const char *what)
    {
        if (given && given->size() != dimensions)
            errors::raise(PyExc_ValueError, std::string(what) + " has " +
                                                std::to_string(given->size()) +
                                                " entries for an array of " +
                                                std::to_string(dimensions) + " dimensions");
        if (given)
            std::copy(given->begin(), given->end(), numbers);
    }

    uint64_t published = 0;
    // Consumers may be reading these, by set.
    std::vector<std::vector<std::unique_ptr<Buffer>>> buffers_in_use;
};

void add_producer(nb::module_ &module)
{
    nb::class_<Producer>(module, "Producer")
        .def(nb::init<const std::string &, const std::string &, unsigned, unsigned, unsigned,
                      unsigned>(),
             nb::arg("name"), nb::arg("policy"), nb::arg("depth"), nb::arg("rank"),
             nb::arg("ranks"), nb::arg("consumers"))
        .def("begin", &Producer::begin, nb::arg("step"), nb::arg("timeout").none())
        .def("put", &Producer::put, nb::arg("name"), nb::arg("data"), nb::arg("units"),
             nb::arg("global_shape").none(), nb::arg("offset").none())
        .def("put_attribute", &Producer::put_attribute, nb::arg("name"), nb::arg("value"))
        .def("publish", &Producer::publish)
        .def("close", &Producer::close, nb::arg("timeout").none())
        .def_ro("name", &Producer::name);
}

// ---- The consumer ----

using Numbers = std::vector<uint64_t>;

class Consumer : public End
{
  public:
    Consumer(const std::string &name, bool every, Timeout timeout) : End(name)
    {
        int mode = every ? ONESPACE_INSITU_EVERY : ONESPACE_INSITU_LATEST;
        const char *text = errors::c_string(name, "the name of a channel");
        int result = onespace_init();
        if (result >= 0)
            result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
                return onespace_insitu_open(text, mode, ms, &handle);
            });
        check(result, name, "it was not created in time: check the name, or wait longer");
    }
    ~Consumer()
    {
        (void)!onespace_insitu_close(handle, 0);
    }

    // Returns false if the producer has closed the channel.
    bool take(onespace_insitu_step &step, Timeout timeout)
    {
        BusyGuard guard(busy, name);
        check_open();
        int result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
            return onespace_insitu_take(handle, &step, ms);
        });
        if (result != -ENODATA)
            check(result, name, "no step was published in time");
        return result == 0;
    }
    void release(onespace_insitu_step &step)
    {
        if (!handle || !step.ticket)
            return;
        BusyGuard guard(busy, name);
        int result = onespace_insitu_release(handle, &step);
        step.ticket = 0;
        check(result, name);
    }
    void close()
    {
        BusyGuard guard(busy, name);
        if (handle)
            (void)!onespace_insitu_close(std::exchange(handle, nullptr), 0);
        cache.clear();
        holds.clear();
    }
    nb::object array(const onespace_insitu_step &step, const std::string &array_name, unsigned rank)
    {
        struct onespace_insitu_array array = find_array(step, array_name, rank);
        for (const CachedArray &cached : cache)
            if (cached.rank == rank && is_same(cached.array, array) && cached.name == array_name)
                return view_of(cached.master);
        nb::object elements = nb::cast(ArrayMemory{array.address, array.bytes, hold_on(array)});
        nb::object master = make_array(elements, array);
        if (cache.size() >= CACHE_MAX)
            cache.clear();
        array.name = array.units = nullptr; // valid only as long as the step
        cache.push_back({rank, array_name, array, master});
        return view_of(master);
    }
    onespace_insitu_array find_array(const onespace_insitu_step &step,
                                     const std::string &array_name, unsigned rank)
    {
        struct onespace_insitu_array array;
        check_open();
        check(onespace_insitu_get(handle, &step, rank,
                                  errors::c_string(array_name, "the name of an array"),
                                  ONESPACE_INSITU_ANY, &array),
              name);
        return array;
    }
    std::vector<std::string> names(const onespace_insitu_step &step, unsigned rank)
    {
        std::vector<std::string> found;
        struct onespace_insitu_array array;
        check_open();
        int result = 0;
        for (unsigned i = 0;
             (result = onespace_insitu_array_at(handle, &step, rank, i, &array)) == 0; i++)
            found.push_back(array.name);
        if (result != -ENOENT)
            check(result, name);
        return found;
    }
    nb::dict attributes(const onespace_insitu_step &step, unsigned rank)
    {
        nb::dict found;
        struct onespace_insitu_attribute attribute;
        check_open();
        int result = 0;
        for (unsigned i = 0;
             (result = onespace_insitu_attribute_at(handle, &step, rank, i, &attribute)) == 0; i++)
            found[attribute.name] =
                attribute.type == ONESPACE_INSITU_INTEGER  ? nb::cast(attribute.integer)
                : attribute.type == ONESPACE_INSITU_NUMBER ? nb::cast(attribute.number)
                                                           : nb::cast(attribute.text);
        if (result != -ENOENT)
            check(result, name);
        return found;
    }
    // Copies a box of a global array into a new array in C order.
    nb::object read(const onespace_insitu_step &step, const std::string &array_name,
                    const Numbers &offset, const Numbers &shape)
    {
        struct onespace_insitu_array array = {}, out = {};
        int result = -ENOENT;
        check_open();
        for (unsigned rank = 0; rank < step.ranks && result == -ENOENT; rank++)
            result = onespace_insitu_get(handle, &step, rank,
                                         errors::c_string(array_name, "the name of an array"),
                                         ONESPACE_INSITU_ANY, &array);
        check(result, name);
        if (offset.size() != array.dimensions || shape.size() != array.dimensions)
            errors::raise(PyExc_ValueError,
                          "array '" + array_name + "' has " + std::to_string(array.dimensions) +
                              " dimensions: give as many entries in offset and shape");
        nb::object target = nb::module_::import_("numpy").attr("empty")(nb::tuple(nb::cast(shape)),
                                                                        dtype_of(array.type));
        describe_buffer(Buffer(target, array_name).view, array_name, out);
        result = onespace_insitu_read(handle, &step,
                                      errors::c_string(array_name, "the name of an array"),
                                      array.type, offset.data(), shape.data(), out.address);
        check(result, name);
        return target;
    }

    onespace_insitu_step current = {}; // the step of the iteration; ticket 0: none

  private:
    static constexpr size_t CACHE_MAX = 256;
    struct CachedArray { // arrays have the same addresses in every step
        unsigned rank;
        std::string name;
        onespace_insitu_array array;
        nb::object master;
    };

    static bool is_same(const onespace_insitu_array &a, const onespace_insitu_array &b)
    {
        return a.address == b.address && a.type == b.type && a.dimensions == b.dimensions &&
               std::memcmp(a.shape, b.shape, sizeof(a.shape)) == 0 &&
               std::memcmp(a.strides, b.strides, sizeof(a.strides)) == 0;
    }
    // A new array object for each caller, because the caller may change its shape and flags.
    static nb::object view_of(const nb::object &master)
    {
        static PyObject *const name = PyUnicode_InternFromString("view");
        PyObject *self = master.ptr(); // the callee may write to the argument array for a moment
        nb::object view = nb::steal(
            PyObject_VectorcallMethod(name, &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
        if (!view.is_valid())
            throw nb::python_error();
        return view;
    }
    // A hold for the array alone: the channel's holds end when it is closed.
    std::shared_ptr<MemoryHold> hold_on(const onespace_insitu_array &array)
    {
        int owner = array.bytes ? onespace_owner(array.address) : ONESPACE_ROOT;
        for (const std::shared_ptr<MemoryHold> &hold : holds)
            if (hold->owner == owner)
                return hold;
        holds.push_back(std::make_shared<MemoryHold>(owner));
        return holds.back();
    }

    std::vector<CachedArray> cache;
    std::vector<std::shared_ptr<MemoryHold>> holds;
};

// A step that was taken. Released explicitly, or when the iteration continues.
struct Step {
    nb::object consumer; // keeps `channel` alive
    Consumer *channel;
    onespace_insitu_step step;

    void release()
    {
        if (step.ticket == channel->current.ticket)
            channel->current.ticket = 0;
        channel->release(step);
    }
};

nb::object step_of(nb::handle self, Consumer &channel, const onespace_insitu_step &step)
{
    return nb::cast(Step{nb::borrow(self), &channel, step});
}

nb::object take(nb::handle self, Timeout timeout)
{
    Consumer &channel = nb::cast<Consumer &>(self);
    onespace_insitu_step step;
    if (!channel.take(step, timeout))
        errors::raise(PyExc_EOFError, onespace_insitu_message());
    return step_of(self, channel, step);
}

nb::object next(nb::handle self)
{
    Consumer &channel = nb::cast<Consumer &>(self);
    channel.release(channel.current);
    if (!channel.take(channel.current, std::nullopt))
        throw nb::stop_iteration();
    return step_of(self, channel, channel.current);
}

nb::dict info(const Step &step, const std::string &name, unsigned rank)
{
    onespace_insitu_array array = step.channel->find_array(step.step, name, rank);
    bool is_part = std::any_of(array.global_shape, array.global_shape + array.dimensions,
                               [](auto n) { return n; });
    nb::dict result;
    result["units"] = array.units;
    result["shape"] = tuple_of(array.shape, array.dimensions);
    result["dtype"] = dtype_of(array.type);
    for (auto [key, numbers] :
         {std::pair("global_shape", array.global_shape), std::pair("offset", array.offset)})
        result[key] = is_part ? nb::object(tuple_of(numbers, array.dimensions)) : nb::none();
    return result;
}

void add_consumer(nb::module_ &module)
{
    nb::class_<Consumer>(module, "Consumer")
        .def(nb::init<const std::string &, bool, Timeout>(), nb::arg("name"), nb::arg("every"),
             nb::arg("timeout").none())
        .def("take", take, nb::arg("timeout").none())
        .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__next__", next)
        .def("close", &Consumer::close)
        .def_ro("name", &Consumer::name);
    nb::class_<Step>(module, "Step",
                     "A step that was taken from a channel: its arrays by name, valid until the "
                     "next step is requested.")
        .def_prop_ro(
            "number", [](const Step &self) { return self.step.step; },
            "The producer's number of this step.")
        .def_prop_ro(
            "passed", [](const Step &self) { return self.step.passed; },
            "The number of skipped steps since the last one that was taken.")
        .def_prop_ro(
            "ranks", [](const Step &self) { return self.step.ranks; },
            "The number of ranks that produce together.")
        .def("__getitem__",
             [](const Step &self, const std::string &name) {
                 return self.channel->array(self.step, name, 0);
             })
        .def(
            "get",
            [](const Step &self, const std::string &name, unsigned rank) {
                return self.channel->array(self.step, name, rank);
            },
            nb::arg("name"), nb::arg("rank") = 0, "A rank's part of an array, in place; read-only.")
        .def(
            "read",
            [](const Step &self, const std::string &name, const Numbers &offset,
               const Numbers &shape) { return self.channel->read(self.step, name, offset, shape); },
            nb::arg("name"), nb::arg("offset"), nb::arg("shape"),
            "A copy of a box of the global array, gathered from the parts of all ranks.")
        .def(
            "names",
            [](const Step &self, unsigned rank) { return self.channel->names(self.step, rank); },
            nb::arg("rank") = 0, "The names of a rank's arrays.")
        .def(
            "attributes",
            [](const Step &self, unsigned rank) {
                return self.channel->attributes(self.step, rank);
            },
            nb::arg("rank") = 0, "A rank's attributes.")
        .def("info", info, nb::arg("name"), nb::arg("rank") = 0,
             "The description of an array: units, shape, dtype, global_shape, offset.")
        .def("release", &Step::release, "Release the step before the iteration continues.")
        .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__exit__", [](Step &self, const nb::args &) { self.release(); });
}

} // namespace
} // namespace channels

void add_channels(nb::module_ &module)
{
    nb::class_<channels::ArrayMemory>(module, "ArrayMemory",
                                      nb::type_slots(channels::array_memory_slots));
    channels::add_producer(module);
    channels::add_consumer(module);
}
