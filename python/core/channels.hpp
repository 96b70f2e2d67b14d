// python/core/channels.hpp: common to both ends of a channel (onespace/insitu.h).
#pragma once

#include "errors.hpp"

#include <onespace/insitu.h>

#include <memory>

namespace channels
{

// Throws the exception for a result of onespace/insitu.h; `late` is the message for -ETIMEDOUT.
[[noreturn]] void fail(int result, const std::string &name, const char *late);

// A handle is used by one thread at a time; waits let other threads run meanwhile.
class Use
{
  public:
    Use(bool &busy, const std::string &name) : busy(busy)
    {
        if (busy)
            errors::fail_with(PyExc_RuntimeError, "channel '" + name +
                                                      "' is in use by another thread: let each "
                                                      "thread open the channel itself");
        busy = true;
    }
    ~Use()
    {
        busy = false;
    }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

  private:
    bool &busy;
};

// A hold on a member's memory.
struct Hold {
    explicit Hold(int owner) : owner(owner), is_held(onespace_hold(owner) == 0)
    {
    }
    ~Hold()
    {
        if (is_held)
            (void)!onespace_release(owner);
    }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;
    int owner;
    bool is_held;
};

// The memory of an array taken from a channel, kept alive by NumPy's arrays of it.
struct Elements {
    void *address;
    uint64_t bytes;
    std::shared_ptr<Hold> hold;
};

// The NumPy array of an element of `elements`, and numpy.dtype of a type.
nb::object make_array(const nb::object &elements, const onespace_insitu_array &array);
nb::object dtype_of(int type);

// Fills type, address, shape and strides from anything with the buffer protocol.
void describe(nb::handle data, const std::string &name, onespace_insitu_array &array);

void add_producer(nb::module_ &module);
void add_consumer(nb::module_ &module);

} // namespace channels
