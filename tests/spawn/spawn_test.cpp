// tests/spawn/spawn_test.cpp: starting tasks.
#include <climits>
#include <set>

#include "fixture.hpp"

using namespace fixture;

using spawn = SpaceTest;

TEST_F(spawn, runs_a_program_and_gives_its_status)
{
    EXPECT_EQ(as_task({program("state"), "exit", "42"}), exits("", 42));
}

TEST_F(spawn, passes_arguments_as_they_are)
{
    EXPECT_EQ(as_task({program("state"), "args", "", "a b", "--preload", "\xff\n"}),
              exits("\na b\n--preload\n\xff\n\n"));
}

TEST_F(spawn, searches_the_callers_path)
{
    EXPECT_EQ(as_task({"printf", "%s", "found"}), exits("found"));
}

TEST_F(spawn, searches_the_given_path)
{
    EXPECT_EQ(
        as_task({"state", "exit", "7"}, [](Attr &attr) { attr.path = ONESPACE_TEST_PROGRAMS; }),
        exits("", 7));
}

TEST_F(spawn, follows_a_script_to_its_interpreter)
{
    std::string path = testing::TempDir() + "onespace-script." + std::to_string(getpid());
    std::ofstream(path) << "#!/bin/sh\necho script $1 $#\nexit 5\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    EXPECT_EQ(as_task({path, "one", "two"}), exits("script one 2\n", 5));
    std::filesystem::remove(path);
}

TEST_F(spawn, gives_each_task_a_process_id_of_its_own)
{
    Task first({program("state"), "cat"}), second({program("state"), "cat"});
    EXPECT_NE(first.id(), second.id());
    EXPECT_NE(first.pid(), second.pid());
    EXPECT_NE(first.pid(), getpid());
    EXPECT_EQ(first.line(), "reading");
    EXPECT_EQ(second.line(), "reading");
    EXPECT_EQ(first.finish(), exits(""));
    EXPECT_EQ(second.finish(), exits(""));
}

TEST_F(spawn, gives_each_task_its_own_globals)
{
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(as_task({program("plain"), "hello"}), exits("hello 6\n", 3));
}

TEST_F(spawn, gives_each_task_the_stack_that_was_asked_for)
{
    auto stack = [](size_t size) { return [size](Attr &attr) { attr.stack_size = size; }; };
    Words deep = {program("state"), "stack", "30000"}; // about 32 MiB
    EXPECT_EQ(as_task(deep, stack(64u << 20)), exits("deep\n"));
    EXPECT_EQ(as_task(deep, stack(1u << 20)), (Outcome{"", SIGSEGV}));
}

TEST_F(spawn, takes_the_stack_size_from_the_limit)
{
    Limits limits = all_limits();
    limits[RLIMIT_STACK].rlim_cur = 64u << 20;
    EXPECT_EQ(as_task({program("state"), "stack", "30000"},
                      [&](Attr &attr) { attr.limits = limits.data(); }),
              exits("deep\n"));
}

TEST_F(spawn, works_from_several_threads_at_once)
{
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 10; i++)
                right += as_task({program("state"), "exit", std::to_string(t)}) == exits("", t);
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(right, 40);
}

TEST_F(spawn, works_from_a_task)
{
    EXPECT_EQ(as_task({program("member"), "spawn", program("state"), "exit", "9"}),
              exits("ended 9\n"));
}

TEST_F(spawn, works_from_a_task_of_a_task)
{
    EXPECT_EQ(as_task({program("member"), "spawn", program("member"), "spawn", program("state"),
                       "exit", "9"}),
              exits("ended 9\nended 0\n"));
}

// Memory of the spawner that the child needs stays.
TEST_F(spawn, leaves_the_child_working_when_the_spawner_ends)
{
    Task spawner({program("member"), "spawn-and-leave", program("memory"), "churn", "500"});
    EXPECT_EQ(spawner.wait(), 0);
    // In any order: the child may be done before the spawner goes on.
    EXPECT_EQ(std::set({spawner.line(), spawner.line()}), (std::set<std::string>{"left", "sound"}));
}

TEST_F(spawn, lets_the_root_shrink_and_grow_its_heap_while_tasks_allocate)
{
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 3; i++)
        tasks.push_back(std::make_unique<Task>(Words{program("memory"), "churn", "1500"}));
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    for (unsigned char mark = 1; std::chrono::steady_clock::now() < end; mark++) {
        std::vector<unsigned char *> pieces;
        for (int i = 0; i < 200; i++) { // below the threshold of mmap, so from the break
            pieces.push_back(static_cast<unsigned char *>(malloc(100000)));
            memset(pieces.back(), mark, 100000);
        }
        for (unsigned char *piece : pieces) {
            ASSERT_EQ(piece[50000], mark);
            ASSERT_EQ(piece[99999], mark);
            free(piece);
        }
        (void)sbrk(1 << 20);
        (void)sbrk(-(1 << 20));
    }
    for (auto &task : tasks)
        EXPECT_EQ(task->finish(), exits("sound\n"));
}

TEST_F(spawn, numbers_the_tasks_that_are_started_together)
{
    auto numbered = [](int number) {
        return [number](Attr &attr) { attr.number = number, attr.ntasks = 2; };
    };
    EXPECT_EQ(as_task({program("member"), "number"}, numbered(0)), exits("0 of 2\n"));
    EXPECT_EQ(as_task({program("member"), "number"}, numbered(1)), exits("1 of 2\n"));
    EXPECT_EQ(as_task({program("member"), "number"}), exits("none\n"));
}
