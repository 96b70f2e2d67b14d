// tests/storage/versions.hpp: the C interface of versions, for C++. C++20 has no _Atomic; what is
// atomic in region.h no test of versions looks at.
#ifndef TESTS_STORAGE_VERSIONS_HPP
#define TESTS_STORAGE_VERSIONS_HPP

#define _Atomic
extern "C" {
#include "storage/versions/versions.h"
#include "storage/versions/crc.h"
#include "storage/versions/format.h"
}
#undef _Atomic

#endif
