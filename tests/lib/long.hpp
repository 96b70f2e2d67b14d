// tests/lib/long.hpp: whether tests do all that they can, or what a usual run has the time for
// (docs/testing.md).
#ifndef ONESPACE_TESTS_LIB_LONG_HPP
#define ONESPACE_TESTS_LIB_LONG_HPP

#include <cstdlib>
#include <cstring>

inline bool want_long()
{
    const char *value = std::getenv("ONESPACE_LONG");
    return value && std::strcmp(value, "1") == 0;
}

// The step through a long list: a usual run takes every n-th entry, beginning with the first.
inline unsigned every(unsigned n)
{
    return want_long() ? 1 : n;
}

#endif
