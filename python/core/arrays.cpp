// python/core/arrays.cpp: exported arrays, and views of other members' arrays (onespace/array.h).
//
// Element types are text here; python/onespace/arrays.py converts them from and to NumPy's dtypes.
#include "module.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <onespace/array.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace
{

std::string in_quotes(const std::string &name)
{
    return "'" + name + "'";
}

// Memory for the description of an array, which is never freed: it may describe another one later
// (onespace/array.h).
struct Structure {
    onespace_array *array = nullptr;
    size_t room = 0; // bytes
};

// Those that describe none at present. Guarded by the interpreter lock.
std::vector<Structure> &spare_structures()
{
    static auto *all = new std::vector<Structure>;
    return *all;
}

Structure take_structure(size_t size)
{
    auto &spares = spare_structures();
    auto found = std::find_if(spares.begin(), spares.end(),
                              [size](const Structure &spare) { return spare.room >= size; });
    if (found != spares.end()) {
        Structure taken = *found;
        spares.erase(found);
        return taken;
    }
    size_t room = std::max(size, sizeof(onespace_array) + 64); // for most types
    auto *array = static_cast<onespace_array *>(std::calloc(1, room));
    if (!array)
        throw std::bad_alloc();
    return {array, room};
}

// An array of this member under a name. Memory that others may still read is never freed, not even
// by ~Export: held memory stays mapped after its owner's end.
class Export : private NonCopyable
{
  public:
    Export(const std::string &name, uint64_t address, uint64_t low, uint64_t bytes,
           uint64_t item_size, const std::vector<uint64_t> &shape,
           const std::vector<int64_t> &strides, const std::string &kind, const std::string &order,
           const std::string &type, bool read_only, nb::object base)
        : name(name)
    {
        (void)errors::c_string(name, "the name of an array");
        if (shape.size() > ONESPACE_ARRAY_DIMENSIONS || strides.size() != shape.size())
            errors::raise(PyExc_ValueError,
                          "array " + in_quotes(name) + " has too many dimensions");
        if (type.size() >= ONESPACE_ARRAY_TYPE_MAX)
            errors::raise(PyExc_ValueError, "array " + in_quotes(name) +
                                                " has elements with too many fields: "
                                                "export fewer of them at a time");
        structure = take_structure(sizeof(*array) + type.size() + 1);
        array = structure.array;
        array->address = address;
        array->low = low;
        array->bytes = bytes;
        array->item_size = item_size;
        array->flags = read_only ? ONESPACE_ARRAY_READ_ONLY : 0;
        array->dimensions = static_cast<uint32_t>(shape.size());
        array->kind = kind.empty() ? 'V' : kind[0];
        array->order = order.empty() ? '|' : order[0];
        std::copy(shape.begin(), shape.end(), array->shape);
        std::copy(strides.begin(), strides.end(), array->strides);
        std::memcpy(array->type, type.c_str(), type.size() + 1);
        publish();
        base_object = base.release().ptr();
    }

    void unexport()
    {
        int result = onespace_array_unexport(name.c_str(), array);
        if (result < 0)
            errors::raise_errno(result, "array " + in_quotes(name) +
                                            " cannot be withdrawn: " + std::strerror(-result));
        is_unexported = true;
    }
    // The ids of the members that view the array, one per view.
    std::vector<int> users() const
    {
        std::vector<int> ids(ONESPACE_ARRAY_VIEWS);
        int count = array ? onespace_array_users(array, ids.data(), ONESPACE_ARRAY_VIEWS) : 0;
        ids.resize(static_cast<size_t>(count));
        return ids;
    }
    // Frees the array if it was withdrawn and has no views. Returns whether it is freed.
    bool free_if_unused()
    {
        if (!array)
            return true;
        if (!is_unexported || onespace_array_users(array, nullptr, 0) > 0)
            return false;
        give_structure_back();
        Py_XDECREF(std::exchange(base_object, nullptr));
        return true;
    }

  private:
    void give_structure_back()
    {
        spare_structures().push_back(structure);
        array = nullptr;
    }
    void publish()
    {
        int result = onespace_array_export(name.c_str(), array);
        if (result == 0)
            return;
        give_structure_back();
        std::string what = "array " + in_quotes(name);
        if (result == -EPROTO)
            errors::raise(PyExc_ValueError,
                          what + " says that it has more elements than its memory holds");
        if (result == -EEXIST)
            errors::raise_errno(
                result,
                what + " is exported already: close that export first, or use another name");
        if (result == -ENAMETOOLONG)
            errors::raise_errno(result, what + " has too long a name: give one of at most " +
                                            std::to_string(ONESPACE_ARRAY_NAME_MAX) + " bytes");
        if (result == -EINVAL)
            errors::raise(PyExc_ValueError, "an array needs a name that is not empty");
        errors::raise_errno(result, what + " cannot be exported: " + std::strerror(-result));
    }

    std::string name;
    Structure structure;
    onespace_array *array = nullptr; // the structure's, until it is given back
    PyObject *base_object = nullptr; // owns the elements
    bool is_unexported = false;
};

// A view of another member's array: a buffer of the elements' memory. Holds the owner's memory
// until it is closed or collected.
class View : private NonCopyable
{
  public:
    View(int owner, const std::string &name, std::optional<double> timeout, bool read_only)
        : owner(owner), name(name)
    {
        const char *text = errors::c_string(this->name, "the name of an array");
        int result = errors::wait_for(errors::Deadline(timeout), [&](int ms) {
            return onespace_array_view(owner, text, &array, ms);
        });
        if (result < 0)
            raise_view_error(result);
        this->read_only = read_only || (array->flags & ONESPACE_ARRAY_READ_ONLY);
        low = array->low;
        bytes = array->bytes;
        if (bytes > 0 && (!is_mapped(low) || !is_mapped(low + bytes - 1))) {
            release();
            errors::raise(PyExc_ValueError,
                          description() + " lies about its memory, which is not mapped: fix the "
                                          "program that exports it");
        }
    }
    ~View()
    {
        release();
    }

    // Precondition: no buffer of the view is in use (View.close in arrays.py).
    void close()
    {
        release();
    }
    bool ended() const
    {
        return onespace_is_member(owner) <= 0;
    }
    const onespace_array &described() const
    {
        if (!array)
            errors::raise(PyExc_ValueError, description() + ": this view is closed");
        return *array;
    }
    nb::tuple shape() const
    {
        return tuple_of(described().shape, array->dimensions);
    }
    nb::tuple strides() const
    {
        return tuple_of(described().strides, array->dimensions);
    }
    int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
    {
        if (!array) {
            PyErr_SetString(PyExc_ValueError, (description() + ": this view is closed").c_str());
            return -1;
        }
        return PyBuffer_FillInfo(buffer, self, reinterpret_cast<void *>(low),
                                 static_cast<Py_ssize_t>(bytes), read_only, flags);
    }

    int owner;
    std::string name;
    bool read_only = false;
    uint64_t low = 0, bytes = 0;

  private:
    std::string description() const
    {
        return "array " + in_quotes(name) + " of " +
               (owner == ONESPACE_ROOT ? "the root" : "task " + std::to_string(owner));
    }
    static bool is_mapped(uint64_t address)
    {
        return onespace_owner(reinterpret_cast<void *>(address)) >= 0;
    }
    void release()
    {
        if (array) // fails only in forked children, which have no holds
            (void)onespace_array_release(owner, std::exchange(array, nullptr));
    }
    [[noreturn]] void raise_view_error(int result) const
    {
        const std::string who =
            owner == ONESPACE_ROOT ? "the root" : "task " + std::to_string(owner);
        if (result == -ETIMEDOUT)
            errors::raise_errno(-ETIMEDOUT, who + " has not exported an array " + in_quotes(name) +
                                                " in time: check the name, or wait longer");
        if (result == -EOWNERDEAD || result == -ESRCH)
            errors::raise_errno(-EOWNERDEAD,
                                description() + " cannot be imported: its owner has ended");
        if (result == -EDEADLK)
            errors::raise(PyExc_LookupError,
                          "this member itself has not exported an array " + in_quotes(name));
        if (result == -EPROTO)
            errors::raise(PyExc_ValueError,
                          description() + " lies about its shape, or was not exported as an array: "
                                          "fix the program that exports it");
        if (result == -EPERM)
            errors::raise_errno(
                result,
                description() +
                    " cannot be imported by a forked child: import it in the parent, or start "
                    "children with onespace.spawn");
        if (result == -ENOSPC)
            errors::raise_errno(result,
                                description() + " has the maximum number of views: close some");
        if (result == -EINVAL)
            errors::raise(PyExc_ValueError, "an array needs a name that is not empty");
        errors::raise_errno(result,
                            description() + " cannot be imported: " + std::strerror(-result));
    }

    onespace_array *array = nullptr;
};

int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    buffer->obj = nullptr;
    return nb::inst_ptr<View>(self)->get_buffer(self, buffer, flags);
}

PyType_Slot view_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void *>(get_buffer)},
    {0, nullptr},
};

// The member that owns the memory at the address, or None.
nb::object owner_of(uint64_t address)
{
    int owner = onespace_owner(reinterpret_cast<void *>(address));
    return owner < 0 ? nb::none() : nb::cast(owner);
}

} // namespace

void add_arrays(nb::module_ &module)
{
    nb::class_<Export>(module, "Export")
        .def(nb::init<const std::string &, uint64_t, uint64_t, uint64_t, uint64_t,
                      const std::vector<uint64_t> &, const std::vector<int64_t> &,
                      const std::string &, const std::string &, const std::string &, bool,
                      nb::object>(),
             nb::arg("name"), nb::arg("address"), nb::arg("low"), nb::arg("bytes"),
             nb::arg("item_size"), nb::arg("shape"), nb::arg("strides"), nb::arg("kind"),
             nb::arg("order"), nb::arg("type"), nb::arg("read_only"), nb::arg("base").none())
        .def("unexport", &Export::unexport)
        .def("users", &Export::users)
        .def("free_if_unused", &Export::free_if_unused);
    nb::class_<View>(module, "View", nb::type_slots(view_slots))
        .def(nb::init<int, const std::string &, std::optional<double>, bool>(), nb::arg("owner"),
             nb::arg("name"), nb::arg("timeout").none(), nb::arg("read_only"))
        .def("close", &View::close)
        .def_prop_ro("ended", &View::ended)
        .def_ro("owner", &View::owner)
        .def_ro("name", &View::name)
        .def_prop_ro("shape", &View::shape)
        .def_prop_ro("strides", &View::strides)
        .def_prop_ro("type", [](const View &view) { return std::string(view.described().type); })
        .def_prop_ro("item_size", [](const View &view) { return view.described().item_size; })
        .def_prop_ro("offset",
                     [](const View &view) { return view.described().address - view.low; });
    module.def("owner_of", owner_of, nb::arg("address"));
}
