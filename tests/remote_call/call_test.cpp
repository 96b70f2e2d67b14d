// tests/remote_call/call_test.cpp: calls into another member: what is whose, recursion, threads.
#include "caller.hpp"

#include <atomic>
#include <cerrno>

using namespace fixture;
using namespace caller;

using call = SpaceTest;

TEST_F(call, runs_with_the_globals_of_the_callee)
{
    Callee callee;
    EXPECT_EQ(callee.call("add_global", 2), 0) << message();
    EXPECT_EQ(callee.value, 42);
}

TEST_F(call, passes_six_arguments)
{
    Callee callee;
    const intptr_t arguments[] = {1, 2, 3, 4, 5, 6};
    const void *function = address_of(callee.function("weigh"));
    EXPECT_EQ(onespace_call_with(callee.id(), function, arguments, &callee.value), 0);
    EXPECT_EQ(callee.value, 654321);
    callee.value = 0;
    EXPECT_EQ(onespace_call_name(callee.id(), "weigh", arguments, &callee.value), 0);
    EXPECT_EQ(callee.value, 654321);
    EXPECT_EQ(onespace_call_name(callee.id(), "weigh", arguments, nullptr), 0);
}

TEST_F(call, uses_the_heap_of_the_callee)
{
    Callee callee;
    EXPECT_EQ(callee.call("use_heap", 100), 0);
    EXPECT_EQ(callee.value, 10 * 13 + 90 * 14);
    EXPECT_EQ(callee.call("new_block", 1000), 0);
    EXPECT_EQ(onespace_owner(reinterpret_cast<void *>(callee.value)), callee.id());
}

TEST_F(call, has_an_errno_of_its_own)
{
    Callee callee;
    ASSERT_EQ(callee.call("use_heap", 1), 0);
    auto *use_heap = callee.function("use_heap"), *get_errno = callee.function("get_errno");
    errno = ENOTTY;
    EXPECT_EQ(onespace_call(callee.id(), use_heap, nullptr, nullptr), 0);
    EXPECT_EQ(errno, ENOTTY);
    EXPECT_EQ(onespace_call(callee.id(), get_errno, nullptr, &callee.value), 0);
    EXPECT_EQ(callee.value, ERANGE);
}

TEST_F(call, is_the_callee_to_the_space_and_the_caller_to_the_kernel)
{
    Callee callee;
    EXPECT_EQ(callee.call("who"), 0);
    EXPECT_EQ(callee.value, callee.id());
    EXPECT_EQ(callee.call("process"), 0);
    EXPECT_EQ(callee.value, getpid());
    EXPECT_EQ(callee.call("stack"), 0);
    EXPECT_EQ(onespace_owner(reinterpret_cast<void *>(callee.value)), callee.id());
}

TEST_F(call, keeps_thread_local_storage_from_call_to_call)
{
    Callee callee;
    for (intptr_t i = 1; i < 5; i++) {
        EXPECT_EQ(callee.call("visit"), 0);
        EXPECT_EQ(callee.value, i);
        EXPECT_EQ(callee.call("set_key", i), 0);
        EXPECT_EQ(callee.value, i - 1);
    }
}

// glibc's per-thread area of the donor would say where that thread has run last.
TEST_F(call, finds_the_cpu_that_it_runs_on)
{
    Callee callee;
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &before))
            continue;
        cpu_set_t single;
        CPU_ZERO(&single);
        CPU_SET(cpu, &single);
        ASSERT_EQ(sched_setaffinity(0, sizeof(single), &single), 0);
        EXPECT_EQ(callee.call("cpu"), 0);
        EXPECT_EQ(callee.value, cpu);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST_F(call, may_jump_and_catch_inside)
{
    Callee callee;
    EXPECT_EQ(callee.call("jumps"), 0);
    EXPECT_EQ(callee.value, 3);
    EXPECT_EQ(callee.call("catches"), 0);
    EXPECT_EQ(callee.value, 6);
}

TEST_F(call, of_many_threads_at_once)
{
    Callee callee;
    auto *use_heap = callee.function("use_heap"), *visit = callee.function("visit");
    std::atomic<long> visits = 0, failures = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 300; i++) {
                intptr_t length = 0;
                void *rounds = reinterpret_cast<void *>(10);
                failures += onespace_call(callee.id(), use_heap, rounds, &length) != 0;
                failures += length != 130;
                failures += onespace_call(callee.id(), visit, nullptr, nullptr) != 0;
                visits++;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0) << message();
    EXPECT_EQ(visits, 8 * 300);
}

TEST_F(call, to_oneself_is_a_plain_call)
{
    auto *function = +[](void *argument) { return reinterpret_cast<intptr_t>(argument) + 1; };
    intptr_t value = 0;
    EXPECT_EQ(onespace_call(ONESPACE_ROOT, function, reinterpret_cast<void *>(6), &value), 0);
    EXPECT_EQ(value, 7);
}

// Called back by tasks.
static thread_local int calls_back;

static intptr_t called_back(void *argument)
{
    calls_back++;
    return reinterpret_cast<intptr_t>(argument) * 2;
}

static intptr_t recurses(void *argument)
{
    auto *recursion = static_cast<Recursion *>(argument);
    std::string text = "held across the calls, and longer than what fits into a string's own bytes";
    if (++recursion->deepest < recursion->depth) {
        auto *function = reinterpret_cast<onespace_call_function *>(
            reinterpret_cast<uintptr_t>(recursion->functions[1]));
        recursion->failed |= onespace_call(recursion->ids[1], function, argument, nullptr);
    }
    recursion->failed |= text.back() != 's';
    return 0;
}

TEST_F(call, back_runs_in_the_thread_that_waits)
{
    Callee callee;
    calls_back = 0;
    Onward onward = {ONESPACE_ROOT, address_of(called_back), 21, -1, 0};
    EXPECT_EQ(callee.call("passes_on", &onward), 0);
    EXPECT_EQ(onward.result, 0);
    EXPECT_EQ(onward.value, 42);
    EXPECT_EQ(calls_back, 1);
}

TEST_F(call, recursion_of_two_members)
{
    Callee callee;
    Recursion recursion = {{ONESPACE_ROOT, callee.id()},
                           {address_of(recurses), address_of(callee.function("recurses"))},
                           400,
                           0,
                           0};
    EXPECT_EQ(callee.call("recurses", &recursion), 0);
    EXPECT_EQ(recursion.deepest, 400);
    EXPECT_EQ(recursion.failed, 0);
    EXPECT_EQ(callee.call("how_often_unwound"), 0);
    EXPECT_EQ(callee.value, 200);
}

TEST_F(call, of_a_task_into_a_task_and_back)
{
    Callee first, second;
    Recursion recursion = {
        {first.id(), second.id()},
        {address_of(first.function("recurses")), address_of(second.function("recurses"))},
        100,
        0,
        0};
    EXPECT_EQ(first.call("recurses", &recursion), 0) << message();
    EXPECT_EQ(recursion.deepest, 100);
    EXPECT_EQ(recursion.failed, 0);
}

TEST_F(call, into_a_program_that_knows_nothing_of_it)
{
    Task called({program("called")}, [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_CALLS; });
    EXPECT_EQ(called.line(), "main");
    intptr_t value = 0;
    auto *function = function_of(called.id(), "add_to_state");
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(onespace_call(called.id(), function, reinterpret_cast<void *>(5), &value), 0)
            << message();
    EXPECT_EQ(value, 22);
    EXPECT_EQ(called.finish(), exits("state 22\n"));
}

TEST_F(call, leaves_nothing_behind)
{
    {
        Callee callee;
        EXPECT_EQ(callee.call("use_heap", 100), 0);
        EXPECT_EQ(callee.finish().status, 0);
    }
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}
