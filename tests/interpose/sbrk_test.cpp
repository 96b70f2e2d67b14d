// tests/interpose/sbrk_test.cpp: a task's program break is in nothing but its place different from
// a process's.
#include <sys/mman.h>

#include "fixture.hpp"

using namespace fixture;

using program_break = SpaceTest;

static const std::string Little = "16384", Much = "1048576";

// Locked pages give zeroes, read-only ones become writable, other mappings are replaced.
TEST_F(program_break, that_moves_gives_writable_zeroes)
{
    for (const auto &[scene, size] : {std::pair("locked", Little),
                                      {"locked", Much},
                                      {"protected", Little},
                                      {"protected", Much},
                                      {"replaced", Much}}) {
        Words words = {program("sbrk"), scene, size};
        expect_same(words, exits("zero\n"));
        EXPECT_EQ(as_task(words, as_thread).status, 0) << scene;
    }
}

// Locks are those of the address space.
TEST_F(program_break, gives_zeroes_when_a_neighbour_has_locked_all_memory)
{
    Task task({program("sbrk"), "neighbour", Much});
    EXPECT_EQ(task.line(), "filled");
    Outcome locked = as_task({program("sbrk"), "lock-all"});
    if (locked != exits("locked\n"))
        GTEST_SKIP() << "mlockall: " << locked.output;
    EXPECT_EQ(task.finish(), exits("zero\n"));
    munlockall();
}
