// tests/interpose/memory_test.cpp: each task has its own program break, its own range and its own
// stack.
#include <cstdio>

#include "fixture.hpp"

using namespace fixture;

using memory = SpaceTest;

TEST_F(memory, from_sbrk_is_each_tasks_own)
{
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 3; i++)
        tasks.push_back(std::make_unique<Task>(Words{program("memory"), "own-break", "500"}));
    for (auto &task : tasks)
        EXPECT_EQ(task->finish(), exits("sound\n"));
}

// As Process-in-Process' test `malloc` does with eight tasks.
TEST_F(memory, of_blocks_of_all_sizes_is_each_tasks_own)
{
    for (unsigned mode : {0u, ONESPACE_SPAWN_THREAD}) {
        std::vector<std::unique_ptr<Task>> tasks;
        for (int i = 0; i < 8; i++)
            tasks.push_back(std::make_unique<Task>(
                Words{program("memory"), "sizes", std::to_string(i)}, [mode](Attr &attr) {
                    attr.flags = mode;
                    attr.fd_count = mode ? 0 : attr.fd_count; // threads share descriptors
                }));
        for (auto &task : tasks)
            EXPECT_EQ(task->wait(), 0);
    }
}

TEST_F(memory, that_grows_stays_the_tasks)
{
    Task task({program("memory"), "mremap"});
    EXPECT_EQ(task.line(), "carried along");
    void *address = nullptr;
    ASSERT_EQ(sscanf(task.line().c_str(), "%p", &address), 1);
    EXPECT_EQ(onespace_owner(address), task.id());
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_TRUE(eventually([&] { return onespace_owner(address) == -ENOENT; }));
}

// Intel MPI's heap passes hints 64 GiB apart, which lie in other tasks' ranges.
TEST_F(memory, hinted_into_the_range_of_another_task_outlives_it)
{
    Task other({program("memory"), "mremap"});
    EXPECT_EQ(other.line(), "carried along");
    std::uintptr_t place = std::stoull(other.line(), nullptr, 16) + (std::uintptr_t{2} << 30);
    char hint[32];
    snprintf(hint, sizeof(hint), "%zx", place);
    Task task({program("memory"), "hint", hint});
    void *got = reinterpret_cast<void *>(std::stoull(task.line(), nullptr, 16));
    EXPECT_EQ(onespace_owner(got), task.id());
    EXPECT_EQ(other.finish().status, 0);
    EXPECT_TRUE(
        eventually([&] { return onespace_owner(reinterpret_cast<void *>(place)) == -ENOENT; }));
    EXPECT_EQ(task.finish(), exits("unchanged\n"));
}

// Frames of 64 KiB must not step over the guard into a neighbour's memory.
TEST_F(memory, of_neighbours_is_safe_from_a_stack_that_overflows)
{
    Task before({program("memory"), "guard", "64"});
    EXPECT_EQ(before.line(), "ready");
    expect_same({program("memory"), "overflow"}, {"", SIGSEGV});
    Task after({program("memory"), "guard", "64"});
    EXPECT_EQ(after.line(), "ready");
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(as_task({program("memory"), "overflow"}), (Outcome{"", SIGSEGV}));
    expect_same({program("memory"), "overflow-thread"}, {"", SIGSEGV});
    EXPECT_EQ(before.finish(), exits("unchanged\n"));
    EXPECT_EQ(after.finish(), exits("unchanged\n"));
}

TEST_F(memory, on_an_executable_stack_runs)
{
    if (!is_built("trampoline"))
        GTEST_SKIP() << "needs a compiler with nested functions";
    expect_same({program("trampoline")}, exits("42\n"));
}
