// tests/remote_call/task_test.cpp: tasks as callers, whose handlers interposition keeps apart.
#include "caller.hpp"

using namespace fixture;
using namespace caller;

using call_task = SpaceTest;

static Outcome scene(const std::string &name, const Callee &callee)
{
    return as_task({program("callee"), name, std::to_string(callee.id())});
}

TEST_F(call_task, has_threads_although_its_thread_local_storage_is_large)
{
    EXPECT_EQ(as_task({program("large-tls")}), exits("1 0 1\n"));
}

// After a jump out of a call the callee serves others.
static void expect_jump(const std::string &name, const std::string &says)
{
    Callee callee;
    EXPECT_EQ(scene(name, callee), exits(says));
    EXPECT_EQ(callee.call("use_heap", 10), 0) << message();
    EXPECT_EQ(callee.finish().status, 0);
}

TEST_F(call_task, handlers_run_with_the_callers_own_storage)
{
    Callee callee;
    EXPECT_EQ(scene("signals", callee), exits("handled\n"));
}

TEST_F(call_task, sigaction_says_what_the_program_has_set)
{
    Callee callee;
    EXPECT_EQ(scene("actions", callee), exits("as set\n"));
}

TEST_F(call_task, jumps_out_of_calls_from_a_handler)
{
    expect_jump("jump", "jumped\n");
}

TEST_F(call_task, jumps_out_of_a_call_back)
{
    expect_jump("jump-back", "jumped back\n");
}

TEST_F(call_task, handles_its_own_faults)
{
    Callee callee;
    EXPECT_EQ(scene("fault", callee), exits("survived\n"));
}

TEST_F(call_task, changes_its_identity_while_a_thread_is_in_a_call)
{
    Callee callee;
    EXPECT_EQ(scene("identity", callee), exits("changed\n"));
}

TEST_F(call_task, leaves_an_ended_callee_after_its_handler)
{
    Callee callee;
    Task task({program("callee"), "end-in-handler", std::to_string(callee.id())});
    EXPECT_EQ(task.line(), "in a handler");
    callee.kill_and_wait();
    EXPECT_EQ(task.finish(), exits("ended\n"));
}

TEST_F(call_task, leaves_an_ended_callee_among_signals)
{
    for (int i = 0; i < (want_long() ? 500 : 10); i++) {
        Callee callee;
        Task task({program("callee"), "end-among-signals", std::to_string(callee.id())});
        EXPECT_EQ(task.line(), "calls");
        sleep_ms(2);
        callee.kill_and_wait();
        EXPECT_EQ(task.finish(), exits("ended\n"));
    }
}

TEST_F(call_task, calls_into_the_root_that_serves)
{
    ASSERT_EQ(onespace_call_serve(), 0) << message();
    ASSERT_EQ(onespace_call_serve(), 0) << "again";
    EXPECT_EQ(as_task({program("callee"), "root"}), exits("the root's 4242\n"));
}

extern "C" __attribute__((used, noinline)) intptr_t function_of_the_root(void *argument)
{
    std::string text = std::to_string(reinterpret_cast<intptr_t>(argument));
    return std::stol(text + text);
}
