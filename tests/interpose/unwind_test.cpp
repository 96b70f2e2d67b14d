// tests/interpose/unwind_test.cpp: unwinding through interposed calls: signals at every instruction
// of one.
#include "fixture.hpp"

using namespace fixture;

using unwind = SpaceTest;

TEST_F(unwind, backtrace_reaches_main_from_every_instruction)
{
    EXPECT_EQ(as_task({program("unwinds"), "backtraces"}),
              exits("stepped: 0 of the backtraces end early\n"));
}

TEST_F(unwind, exception_is_caught_from_every_instruction)
{
    EXPECT_EQ(as_task({program("unwinds"), "exceptions"}),
              exits("stepped: all exceptions were caught\n"));
}

TEST_F(unwind, asynchronous_cancellation_runs_destructors)
{
    EXPECT_EQ(as_task({program("unwinds"), "cancellation"}), exits("200 of 200 destructors ran\n"));
}

TEST_F(unwind, processes_do_the_same)
{
    for (const char *role : {"backtraces", "exceptions", "cancellation"})
        EXPECT_EQ(as_process({program("unwinds"), role}).status, 0) << role;
}
