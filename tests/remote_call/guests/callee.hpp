// tests/remote_call/guests/callee.hpp: what the test and the guest agree on.
#ifndef ONESPACE_TESTS_CALL_CALLEE_HPP
#define ONESPACE_TESTS_CALL_CALLEE_HPP

#include <cstdint>

// A call that the function is to make in turn.
struct Onward {
    int id;
    const void *function;
    intptr_t argument;
    int result;     // of onespace_call
    intptr_t value; // of the function
};

// Two members that call each other, `depth` times.
struct Recursion {
    int ids[2];
    const void *functions[2];
    int depth, deepest;
    int failed;
};

#endif
