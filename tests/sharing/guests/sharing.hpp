// tests/sharing/guests/sharing.hpp: what the guest `sharing` can make and what it can do with what
// another task has made.
#ifndef ONESPACE_TESTS_PROGRAMS_SHARING_HPP
#define ONESPACE_TESTS_PROGRAMS_SHARING_HPP

#include <string>

struct Thing {
    const char *name;
    void *(*make)();            // in the owner
    std::string (*use)(void *); // in any task; what it found
};

extern const Thing data_things[], code_things[], lock_things[]; // each ends with a NULL name

#endif
