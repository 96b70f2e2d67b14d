// tests/remote_call/caller.hpp: a task that serves, and calls into it.
#ifndef ONESPACE_TESTS_CALL_CALLER_HPP
#define ONESPACE_TESTS_CALL_CALLER_HPP

#include "fixture.hpp"
#include "guests/callee.hpp"
#include "onespace/call.h"

namespace caller
{

inline std::string message()
{
    return onespace_call_message();
}

inline bool says(const std::string &part)
{
    return message().find(part) != std::string::npos;
}

inline onespace_call_function *function_of(int id, const char *name)
{
    void *address = nullptr;
    EXPECT_EQ(onespace_lookup(id, name, &address, nullptr), 0) << name;
    return reinterpret_cast<onespace_call_function *>(reinterpret_cast<uintptr_t>(address));
}

inline const void *address_of(onespace_call_function *function)
{
    return reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(function));
}

class Callee : public fixture::Task
{
  public:
    explicit Callee(const std::function<void(fixture::Attr &)> &change = nullptr)
        : Task({fixture::program("callee")}, change)
    {
        EXPECT_EQ(line(), "serves");
    }
    onespace_call_function *function(const char *name) const
    {
        return function_of(id(), name);
    }
    // The result of the call; the function's in `value`.
    int call(const char *name, const void *argument = nullptr)
    {
        return onespace_call(id(), function(name), const_cast<void *>(argument), &value);
    }
    int call(const char *name, intptr_t argument)
    {
        return call(name, reinterpret_cast<const void *>(argument));
    }
    intptr_t value = -1;
};

} // namespace caller

#endif
