// tests/elf/failing_malloc.cpp
#include "failing_malloc.hpp"

#include <cstddef>

namespace
{
bool active = false, failed = false;
int left = 0;
} // namespace

extern "C" void *__real_malloc(size_t size);
extern "C" void *__wrap_malloc(size_t size);
extern "C" void *__wrap_malloc(size_t size)
{
    if (active && !failed && left-- == 0) {
        failed = true;
        return nullptr;
    }
    return __real_malloc(size);
}

FailingMalloc::FailingMalloc(int successes)
{
    active = true;
    failed = false;
    left = successes;
}

FailingMalloc::~FailingMalloc()
{
    active = false;
}

bool FailingMalloc::has_failed() const
{
    return failed;
}
