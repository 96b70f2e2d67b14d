// tests/storage/versions/versions.hpp: the C interface of versions, for C++.
#ifndef TESTS_STORAGE_VERSIONS_HPP
#define TESTS_STORAGE_VERSIONS_HPP

extern "C" {
#include "storage/versions/versions.h"
#include "storage/versions/slots.h"
}

#endif
