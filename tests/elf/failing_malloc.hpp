// tests/elf/failing_malloc.hpp: makes one allocation of the code under test fail.
#ifndef ONESPACE_TESTS_IMAGE_FAILING_MALLOC_HPP
#define ONESPACE_TESTS_IMAGE_FAILING_MALLOC_HPP

// The linker sends malloc calls of the linked objects through __wrap_malloc (see CMakeLists.txt).
// While an object of this class lives, the call after `successes` others returns NULL.
class FailingMalloc
{
  public:
    explicit FailingMalloc(int successes);
    ~FailingMalloc();
    bool has_failed() const;
};

#endif
