// tests/interpose/signals_test.cpp: programs with handlers of their own for SIGSEGV and SIGBUS do
// as a task what they do as a process. Each scene of signals.c is run both ways.
#include "fixture.hpp"

using namespace fixture;

using signals = SpaceTest;

static void expect_same(const std::string &scene, const std::string &output, int status)
{
    Words words = {program("signals"), scene, program("state")};
    Outcome process = as_process(words), task = as_task(words);
    EXPECT_EQ(task, process);
    EXPECT_NE(process.output.find(output), std::string::npos) << process.output;
    EXPECT_EQ(process.status, status);
}

TEST_F(signals, are_as_the_program_set_them)
{
    expect_same("remember", "11 note flags 48000004 mask 010", 0);
}

TEST_F(signals, tell_the_address_of_the_fault)
{
    expect_same("address", "5 times, signal 11", 0);
}

TEST_F(signals, tell_the_address_of_a_bus_error)
{
    expect_same("bus", "1 times, signal 7, code 2, address right", 0);
}

TEST_F(signals, may_repair_the_cause_and_return)
{
    expect_same("repair", "100 times", 0);
}

TEST_F(signals, run_on_the_alternate_stack_when_it_is_wanted)
{
    expect_same("alternate-stack",
                "1 times, on the alternate stack 1\n2 times, on the alternate stack 0", 0);
}

TEST_F(signals, with_resethand_are_caught_once)
{
    expect_same("reset", "11 default", SIGSEGV);
}

TEST_F(signals, with_nodefer_may_nest)
{
    expect_same("nodefer", "2 times, mask 0", 0);
}

TEST_F(signals, without_nodefer_kill_in_their_own_handler)
{
    expect_same("fault-in-handler", "", SIGSEGV);
}

TEST_F(signals, block_the_mask_that_was_given)
{
    expect_same("mask", "mask 3\nrestored 0", 0);
}

TEST_F(signals, that_are_ignored_kill_when_it_is_a_fault)
{
    expect_same("ignored-fault", "ignored", SIGSEGV);
}

TEST_F(signals, that_are_blocked_kill_when_it_is_a_fault)
{
    expect_same("blocked-fault", "", SIGSEGV);
}

TEST_F(signals, may_be_sent_as_well)
{
    expect_same("raised", "1 times, code -6\n2 times, code -1\n3 times, signal 11", SIGSEGV);
}

TEST_F(signals, of_abort_kill)
{
    expect_same("abort", "", SIGABRT);
}

TEST_F(signals, of_a_thread_kill_the_whole_task)
{
    expect_same("thread-fault", "", SIGSEGV);
}

TEST_F(signals, are_inherited_by_children_as_the_kernel_does_it)
{
    expect_same("children", "child's handler 1 times", 0);
}

TEST_F(signals, are_not_sent_for_bad_pointers_to_interposed_calls)
{
    expect_same("bad-pointers", "readlink -1 Bad address", 0);
}

TEST_F(signals, that_are_blocked_do_not_make_bad_pointers_deadly)
{
    expect_same("bad-pointers-blocked", "readlink -1 Bad address", 0);
}

TEST_F(signals, that_are_ignored_do_not_make_bad_pointers_deadly)
{
    expect_same("bad-pointers-ignored", "readlink -1 Bad address", 0);
}

TEST_F(signals, of_a_forked_child_do_not_make_bad_pointers_deadly)
{
    expect_same("bad-pointers-of-child", "readlink -1 Bad address", 0);
}

TEST_F(signals, that_are_ignored_interrupt_no_call)
{
    expect_same("ignored-while-asleep", "poll 1\npoll 1\n", 0);
}

TEST_F(signals, of_a_vfork_child_are_its_own)
{
    expect_same("vfork-resets", "1 times, then signal 11\n11 note", 0);
}
