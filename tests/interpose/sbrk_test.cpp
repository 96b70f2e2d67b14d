// tests/interpose/sbrk_test.cpp: a task's program break is in nothing but its place different from
// a process's.
#include <sys/mman.h>

#include "fixture.hpp"

using namespace fixture;

using program_break = SpaceTest;

static const std::string Little = "16384", Much = "1048576";

static void expect_same(const Words &words, const Outcome &outcome)
{
    EXPECT_EQ(as_process(words), outcome);
    EXPECT_EQ(as_task(words), outcome);
    EXPECT_EQ(as_task(words,
                      [](Attr &attr) {
                          attr.flags = ONESPACE_SPAWN_THREAD;
                          attr.fd_count = 0;
                      })
                  .status,
              outcome.status);
}

TEST_F(program_break, that_moves_over_locked_pages_gives_zeroes)
{
    expect_same({program("sbrk"), "locked", Little}, exits("zero\n"));
    expect_same({program("sbrk"), "locked", Much}, exits("zero\n"));
}

TEST_F(program_break, that_moves_over_read_only_pages_makes_them_writable)
{
    expect_same({program("sbrk"), "protected", Little}, exits("zero\n"));
    expect_same({program("sbrk"), "protected", Much}, exits("zero\n"));
}

TEST_F(program_break, that_moves_over_other_mappings_replaces_them)
{
    expect_same({program("sbrk"), "replaced", Much}, exits("zero\n"));
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

TEST_F(program_break, moves_behind_a_filter_that_allows_brk_but_not_mmap)
{
    for (const char *how : {"prctl", "seccomp"}) {
        Words words = {program("sbrk"), "filtered", how};
        Outcome done = exits("the buffer of standard output is made\nallocated\n");
        EXPECT_EQ(as_process(words), done);
        EXPECT_EQ(as_task(words), done);
    }
}
