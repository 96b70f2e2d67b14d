// tests/sharing/guests/sharing_code.cpp: functions that one task has and another one calls.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "sharing.hpp"

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

struct Square : Shape {
    double side = 3;
    double area() const override
    {
        return side * side;
    }
};

namespace
{

struct Unnamed : Square {
};

using Function = long (*)(long);

template <Function function> void *place_of()
{
    return reinterpret_cast<void *>(function);
}

std::string call(void *place)
{
    return std::to_string(reinterpret_cast<Function>(place)(7));
}

// Pure: arguments and constants only.
long polynomial(long x)
{
    static const long factors[] = {3, 0, -2, 5};
    long result = 0;
    for (long factor : factors)
        result = result * x + factor;
    return result;
}

long global;
long add_to_global(long x)
{
    return global += x;
}

std::string show_global(void *)
{
    return std::to_string(global);
}

thread_local long local = 100;
long add_to_local(long x)
{
    return local += x;
}

std::string show_local(void *)
{
    return std::to_string(local);
}

long overflow(long)
{
    char *end;
    return strtol("99999999999999999999999", &end, 10);
}

std::string call_for_errno(void *place)
{
    errno = 0;
    reinterpret_cast<Function>(place)(0);
    return errno == ERANGE ? "set" : "not set";
}

std::string show_errno(void *)
{
    return errno == ERANGE ? "set" : "not set";
}

std::string clear_errno(void *)
{
    errno = 0;
    return "cleared";
}

long allocate(long size)
{
    return reinterpret_cast<long>(malloc(static_cast<size_t>(size)));
}

long print(long)
{
    printf("printed\n");
    return fflush(stdout);
}

long stream(long)
{
    std::cout << "streamed" << std::endl;
    return 0;
}

long throw_it(long x)
{
    throw x;
}

std::string call_and_catch(void *place)
{
    try {
        reinterpret_cast<Function>(place)(7);
    } catch (long) {
        return "caught";
    }
    return "nothing thrown";
}

template <typename Form> void *make_shape()
{
    return static_cast<Shape *>(new Form);
}

std::string measure_shape(void *place)
{
    auto *shape = static_cast<Shape *>(place);
    return std::to_string(static_cast<int>(shape->area())) +
           (dynamic_cast<Unnamed *>(shape)  ? " unnamed"
            : dynamic_cast<Square *>(shape) ? " square"
                                            : " unknown");
}

} // namespace

const Thing code_things[] = {
    {"pure", place_of<polynomial>, call},
    {"global", place_of<add_to_global>, call},
    {"global-value", nullptr, show_global},
    {"thread-local", place_of<add_to_local>, call},
    {"thread-local-value", nullptr, show_local},
    {"errno", place_of<overflow>, call_for_errno},
    {"errno-value", nullptr, show_errno},
    {"errno-clear", nullptr, clear_errno},
    {"malloc", place_of<allocate>, call},
    {"printf", place_of<print>, call},
    {"cout", place_of<stream>, call},
    {"throw", place_of<throw_it>, call_and_catch},
    {"shape", make_shape<Square>, measure_shape},
    {"shape-unnamed", make_shape<Unnamed>, measure_shape},
    {nullptr, nullptr, nullptr},
};
