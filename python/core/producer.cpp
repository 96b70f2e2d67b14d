// python/core/producer.cpp: the end of a channel that publishes steps.
#include "channels.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

namespace channels
{
namespace
{

using Timeout = std::optional<double>;

class Producer
{
  public:
    Producer(const std::string &name, const std::string &policy, unsigned depth, unsigned rank,
             unsigned ranks, unsigned consumers)
        : name(name)
    {
        struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
        const char *text = errors::c_text(name, "the name of a channel");
        options.policy = policy_of(policy);
        options.depth = depth;
        options.rank = rank;
        options.ranks = ranks;
        options.consumers = consumers;
        int result = onespace_init();
        if (result >= 0)
            result = onespace_insitu_create(text, &options, &handle);
        if (result < 0)
            fail(result, name, "");
        kept.resize(std::max(depth, options.policy == ONESPACE_INSITU_COPY ? 4u : 1u));
    }
    ~Producer()
    {
        // Arrays that consumers may still read are not freed, nor is the channel closed.
        if (handle && onespace_insitu_close(handle, 0) < 0)
            for (auto &set : kept)
                for (nb::object &array : set)
                    (void)array.release();
    }
    Producer(const Producer &) = delete;
    Producer &operator=(const Producer &) = delete;

    // True if the step is to be published.
    bool begin(uint64_t step, Timeout timeout)
    {
        Use use(busy, name);
        check_open();
        int result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
            return onespace_insitu_begin(handle, step, ms);
        });
        if (result < 0)
            fail(result, name,
                 "consumers still need the step whose arrays are reused next, or too few have "
                 "opened the channel");
        if (result == 0)
            kept[published % kept.size()].clear(); // no consumer reads these arrays any more
        return result == 0;
    }
    void put(const std::string &array_name, const nb::object &data, const std::string &units,
             const std::optional<std::vector<uint64_t>> &global_shape,
             const std::optional<std::vector<uint64_t>> &offset)
    {
        struct onespace_insitu_array array = {};
        check_open();
        describe(data, array_name, array);
        array.name = errors::c_text(array_name, "the name of an array");
        array.units = errors::c_text(units, "the units of an array");
        fill(global_shape, array.dimensions, array.global_shape, "global_shape");
        fill(offset, array.dimensions, array.offset, "offset");
        int result = onespace_insitu_put(handle, &array);
        if (result < 0)
            fail(result, name, "");
        kept[published % kept.size()].push_back(data);
    }
    void put_attribute(const std::string &attribute_name, const nb::object &value)
    {
        struct onespace_insitu_attribute attribute = {};
        std::string text;
        check_open();
        attribute.name = errors::c_text(attribute_name, "the name of an attribute");
        if (PyLong_Check(value.ptr())) {
            attribute.type = ONESPACE_INSITU_INTEGER;
            attribute.integer = PyLong_AsLongLong(value.ptr());
        } else if (PyUnicode_Check(value.ptr())) {
            text = nb::cast<std::string>(value);
            attribute.type = ONESPACE_INSITU_TEXT;
            attribute.text = errors::c_text(text, "the text of an attribute");
        } else {
            attribute.type = ONESPACE_INSITU_NUMBER;
            attribute.number = PyFloat_AsDouble(value.ptr());
        }
        if (PyErr_Occurred())
            throw nb::python_error();
        int result = onespace_insitu_put_attribute(handle, &attribute);
        if (result < 0)
            fail(result, name, "");
    }
    void publish()
    {
        Use use(busy, name);
        check_open();
        int result = onespace_insitu_publish(handle);
        if (result < 0)
            fail(result, name, "");
        published++;
    }
    void close(Timeout timeout)
    {
        Use use(busy, name);
        if (!handle)
            return;
        int result = errors::wait_for(errors::Deadline(timeout),
                                      [&](int ms) { return onespace_insitu_close(handle, ms); });
        if (result < 0)
            fail(result, name, "consumers have not taken and released all steps yet");
        handle = nullptr;
        kept.assign(kept.size(), {});
    }

    std::string name;

  private:
    static int policy_of(const std::string &policy)
    {
        if (policy == "wait")
            return ONESPACE_INSITU_WAIT;
        if (policy == "skip")
            return ONESPACE_INSITU_SKIP;
        if (policy == "copy")
            return ONESPACE_INSITU_COPY;
        errors::fail_with(PyExc_ValueError,
                          "there is no policy '" + policy + "': give 'wait', 'skip' or 'copy'");
    }
    void check_open() const
    {
        if (!handle)
            errors::fail_with(PyExc_ValueError, "channel '" + name + "' is closed");
    }
    static void fill(const std::optional<std::vector<uint64_t>> &given, unsigned dimensions,
                     uint64_t *numbers, const char *what)
    {
        if (given && given->size() != dimensions)
            errors::fail_with(PyExc_ValueError, std::string(what) + " has " +
                                                    std::to_string(given->size()) +
                                                    " entries for an array of " +
                                                    std::to_string(dimensions) + " dimensions");
        if (given)
            std::copy(given->begin(), given->end(), numbers);
    }

    onespace_insitu *handle = nullptr;
    bool busy = false;
    uint64_t published = 0;
    std::vector<std::vector<nb::object>> kept; // arrays that consumers may be reading, by set
};

} // namespace

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

} // namespace channels
