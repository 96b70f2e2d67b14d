// python/core/consumer.cpp: the end of a channel that takes steps and reads their arrays in place.
#include "channels.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace channels
{
namespace
{

using Timeout = std::optional<double>;
using Numbers = std::vector<uint64_t>;

nb::object numbers_of(const uint64_t *numbers, unsigned count)
{
    return nb::object(nb::tuple(nb::cast(Numbers(numbers, numbers + count))));
}

class Consumer
{
  public:
    Consumer(const std::string &name, bool every, Timeout timeout) : name(name)
    {
        int mode = every ? ONESPACE_INSITU_EVERY : ONESPACE_INSITU_LATEST;
        const char *text = errors::c_text(name, "the name of a channel");
        int result = onespace_init();
        if (result >= 0)
            result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
                return onespace_insitu_open(text, mode, ms, &handle);
            });
        if (result < 0)
            fail(result, name, "it was not created in time: check the name, or wait longer");
    }
    ~Consumer()
    {
        (void)!onespace_insitu_close(handle, 0);
    }
    Consumer(const Consumer &) = delete;
    Consumer &operator=(const Consumer &) = delete;

    // False: the producer has closed the channel.
    bool take(onespace_insitu_step &step, Timeout timeout)
    {
        Use use(busy, name);
        check_open();
        int result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
            return onespace_insitu_take(handle, &step, ms);
        });
        if (result < 0 && result != -ENODATA)
            fail(result, name, "no step came in time");
        return result == 0;
    }
    void release(onespace_insitu_step &step)
    {
        if (!handle || !step.ticket)
            return;
        int result = onespace_insitu_release(handle, &step);
        step.ticket = 0;
        if (result < 0)
            fail(result, name, "");
    }
    void close()
    {
        Use use(busy, name);
        if (handle)
            (void)!onespace_insitu_close(std::exchange(handle, nullptr), 0);
        made.clear();
        holds.clear();
    }
    nb::object array(const onespace_insitu_step &step, const std::string &array_name, unsigned rank)
    {
        struct onespace_insitu_array array = describe_one(step, array_name, rank);
        for (const Made &known : made)
            if (known.rank == rank && is_same(known.array, array) && known.name == array_name)
                return view_of(known.master);
        nb::object elements = nb::cast(Elements{array.address, array.bytes, hold_on(array)});
        nb::object master = make_array(elements, array);
        if (made.size() >= MADE_MOST)
            made.clear();
        array.name = array.units = nullptr; // valid only as long as the step
        made.push_back({rank, array_name, array, master});
        return view_of(master);
    }
    onespace_insitu_array describe_one(const onespace_insitu_step &step,
                                       const std::string &array_name, unsigned rank)
    {
        struct onespace_insitu_array array;
        check_open();
        int result = onespace_insitu_get(handle, &step, rank,
                                         errors::c_text(array_name, "the name of an array"),
                                         ONESPACE_INSITU_ANY, &array);
        if (result < 0)
            fail(result, name, "");
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
            fail(result, name, "");
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
            fail(result, name, "");
        return found;
    }
    // Into a new array, which is in C order, so `to` is its memory.
    nb::object read(const onespace_insitu_step &step, const std::string &array_name,
                    const Numbers &offset, const Numbers &shape)
    {
        struct onespace_insitu_array array = {}, out = {};
        int result = -ENOENT;
        check_open();
        for (unsigned rank = 0; rank < step.ranks && result == -ENOENT; rank++)
            result = onespace_insitu_get(handle, &step, rank,
                                         errors::c_text(array_name, "the name of an array"),
                                         ONESPACE_INSITU_ANY, &array);
        if (result < 0)
            fail(result, name, "");
        if (offset.size() != array.dimensions || shape.size() != array.dimensions)
            errors::fail_with(PyExc_ValueError,
                              "array '" + array_name + "' has " + std::to_string(array.dimensions) +
                                  " dimensions: give as many entries in offset and shape");
        nb::object target = nb::module_::import_("numpy").attr("empty")(nb::tuple(nb::cast(shape)),
                                                                        dtype_of(array.type));
        describe(target, array_name, out);
        result =
            onespace_insitu_read(handle, &step, errors::c_text(array_name, "the name of an array"),
                                 array.type, offset.data(), shape.data(), out.address);
        if (result < 0)
            fail(result, name, "");
        return target;
    }

    std::string name;
    onespace_insitu_step current = {}; // the iteration's step; ticket 0: none

  private:
    static constexpr size_t MADE_MOST = 256;
    struct Made { // a cache: arrays have the same addresses in every step
        unsigned rank;
        std::string name;
        onespace_insitu_array array;
        nb::object master;
    };

    void check_open() const
    {
        if (!handle)
            errors::fail_with(PyExc_ValueError, "channel '" + name + "' is closed");
    }
    static bool is_same(const onespace_insitu_array &a, const onespace_insitu_array &b)
    {
        return a.address == b.address && a.type == b.type && a.dimensions == b.dimensions &&
               std::memcmp(a.shape, b.shape, sizeof(a.shape)) == 0 &&
               std::memcmp(a.strides, b.strides, sizeof(a.strides)) == 0;
    }
    // A new array object for each caller, which can change its shape and flags.
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
    // Arrays can outlive the channel's own holds, which end when it is closed.
    std::shared_ptr<Hold> hold_on(const onespace_insitu_array &array)
    {
        int owner = array.bytes ? onespace_owner(array.address) : ONESPACE_ROOT;
        for (const std::shared_ptr<Hold> &hold : holds)
            if (hold->owner == owner)
                return hold;
        holds.push_back(std::make_shared<Hold>(owner));
        return holds.back();
    }

    onespace_insitu *handle = nullptr;
    bool busy = false;
    std::vector<Made> made;
    std::vector<std::shared_ptr<Hold>> holds;
};

// A step that was taken. Released when the iteration continues, or explicitly.
struct Step {
    nb::object keeps; // the Consumer
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
        errors::fail_with(PyExc_EOFError, onespace_insitu_message());
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
    onespace_insitu_array array = step.channel->describe_one(step.step, name, rank);
    bool is_part = std::any_of(array.global_shape, array.global_shape + array.dimensions,
                               [](auto n) { return n; });
    nb::dict result;
    result["units"] = array.units;
    result["shape"] = numbers_of(array.shape, array.dimensions);
    result["dtype"] = dtype_of(array.type);
    result["global_shape"] =
        is_part ? numbers_of(array.global_shape, array.dimensions) : nb::none();
    result["offset"] = is_part ? numbers_of(array.offset, array.dimensions) : nb::none();
    return result;
}

} // namespace

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
                     "A step that was taken from a channel: its arrays, by name, until the next "
                     "one is asked for.")
        .def_prop_ro(
            "number", [](const Step &self) { return self.step.step; },
            "The producer's number of this step.")
        .def_prop_ro(
            "passed", [](const Step &self) { return self.step.passed; },
            "How many steps were passed over since the last one that was taken.")
        .def_prop_ro(
            "ranks", [](const Step &self) { return self.step.ranks; },
            "How many ranks produce together.")
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

} // namespace channels
