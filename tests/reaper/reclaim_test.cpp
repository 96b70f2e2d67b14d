// tests/reaper/reclaim_test.cpp: what ended tasks had comes back.
#include <sys/mman.h>

#include "fixture.hpp"

using namespace fixture;

using reclaim = SpaceTest;

static int rounds(int quick, int many)
{
    return want_long() ? many : quick;
}

static bool is_unmapped()
{
    return Footprint::now().task_mappings == 0;
}

// A task's status may be collected before its memory is unmapped. A task that maps at addresses of
// its own choice can start only afterwards.
enum class Addresses { any, chosen };

static void run_one(const Words &words, Addresses addresses)
{
    ASSERT_EQ(as_task(words).status, 0);
    if (addresses == Addresses::chosen) {
        ASSERT_TRUE(eventually(is_unmapped));
    }
}

// The library's own caches and the test's are filled by the first few.
static Footprint warmed_up(const Words &words, Addresses addresses = Addresses::any)
{
    for (int i = 0; i < 10; i++)
        run_one(words, addresses);
    EXPECT_TRUE(eventually(is_unmapped));
    return Footprint::now();
}

static void run_many(const Words &words, int count, Addresses addresses = Addresses::any)
{
    Footprint before = warmed_up(words, addresses);
    for (int i = 0; i < count; i++) {
        SCOPED_TRACE("round " + std::to_string(i));
        ASSERT_NO_FATAL_FAILURE(run_one(words, addresses));
    }
    expect_flat(before);
}

TEST_F(reclaim, after_many_short_tasks)
{
    run_many({"true"}, rounds(300, 1000000));
}

TEST_F(reclaim, after_tasks_that_allocate_in_threads)
{
    run_many({program("memory"), "allocate", "50", "3"}, rounds(20, 1000));
}

TEST_F(reclaim, after_eight_tasks_at_once)
{
    Words words = {program("memory"), "allocate", "20", "3"};
    Footprint before = warmed_up(words);
    for (int round = 0; round < rounds(3, 300); round++) {
        std::vector<Task> tasks;
        for (int i = 0; i < 8; i++)
            tasks.emplace_back(words);
        for (Task &task : tasks)
            ASSERT_EQ(task.finish(), exits("wrong 0\n"));
    }
    expect_flat(before);
}

TEST_F(reclaim, after_tasks_that_were_killed)
{
    Words words = {program("memory"), "churn", "60000"};
    Footprint before = warmed_up({"true"});
    for (int i = 0; i < rounds(30, 1000); i++) {
        Task task(words);
        sleep_ms(i % 7);
        task.kill_and_wait();
    }
    expect_flat(before);
}

TEST_F(reclaim, after_tasks_that_mapped_outside_their_range)
{
    run_many({program("memory"), "outside"}, rounds(10, 300), Addresses::chosen);
}

TEST_F(reclaim, of_huge_pages_and_of_what_could_not_be_unmapped)
{
    run_many({program("mappings"), "left", "6800000000"}, rounds(10, 300), Addresses::chosen);
}

TEST_F(reclaim, of_pages_of_1_gib)
{
    Words words = {program("mappings"), "gib-left"};
    if (as_process(words) == exits("none\n"))
        GTEST_SKIP() << "no pages of 1 GiB here (/sys/kernel/mm/hugepages/hugepages-1048576kB)";
    run_many(words, rounds(5, 300));
}

// One space has 2,047 slots.
TEST_F(reclaim, after_tasks_that_seal_their_memory)
{
    if (as_task({program("mappings"), "sealed"}) == exits("none\n"))
        GTEST_SKIP() << "mseal needs Linux 6.10";
    run_many({program("mappings"), "sealed"}, 3000);
}

// Memory that was sealed by a call that was not interposed stays. All else goes, and later tasks
// run.
TEST_F(reclaim, leaves_sealed_memory_alone)
{
    Footprint before = warmed_up({"true"});
    for (int i = 0; i < 5; i++) {
        Outcome outcome = as_task({program("mappings"), "seal"});
        if (outcome == exits("none\n"))
            GTEST_SKIP() << "mseal needs Linux 6.10";
        EXPECT_EQ(outcome.status, 0) << outcome.output;
        EXPECT_EQ(as_task({"true"}).status, 0);
    }
    before.task_mappings += 5 * 3; // the page, and what is left of 64 KiB around it
    expect_flat(before, 5 * 3 + 2);
}

TEST_F(reclaim, after_tasks_with_a_break_of_their_own)
{
    run_many({program("memory"), "sbrk"}, rounds(10, 300));
}

TEST_F(reclaim, after_tasks_that_executed_another_program)
{
    run_many({"sh", "-c", "exec true"}, rounds(50, 1000));
}

TEST_F(reclaim, after_tasks_whose_children_are_tasks)
{
    run_many({program("member"), "spawn", "true"}, rounds(30, 1000));
}

TEST_F(reclaim, after_static_programs)
{
    run_many({program("plain-static"), "threads"}, 5);
}

TEST_F(reclaim, after_musl_programs)
{
    if (!is_built("plain-musl"))
        GTEST_SKIP() << "needs musl-gcc";
    run_many({program("plain-musl"), "malloc"}, 5);
}

TEST_F(reclaim, of_what_detached_tasks_had)
{
    Footprint before = warmed_up({"true"});
    for (int i = 0; i < 50; i++) {
        Task task({"true"}, [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_DETACHED; });
        ASSERT_TRUE(eventually([&] { return has_ended(task.id()); }));
    }
    expect_flat(before);
}

TEST_F(reclaim, before_the_status_is_collected)
{
    Footprint before = warmed_up({"true"});
    Task task({program("memory"), "allocate", "20", "2"});
    ASSERT_TRUE(eventually([&] { return has_ended(task.id()); }));
    before.descriptors = Footprint::now().descriptors; // the pipes to the task
    expect_flat(before);
    EXPECT_EQ(task.wait(), 0);
}

TEST_F(reclaim, of_a_mapping_outside_ends_its_ownership)
{
    // The task has ended and is not collected. Any member may map at its address soon.
    Task task({program("memory"), "outside"});
    EXPECT_EQ(task.line(), "mapped");
    ASSERT_TRUE(eventually([&] { return has_ended(task.id()); }));
    void *place = reinterpret_cast<void *>(0x7000000000), *mine = MAP_FAILED;
    ASSERT_TRUE(eventually([&] {
        mine =
            mmap(place, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        return mine == place;
    }));
    EXPECT_EQ(onespace_owner(mine), ONESPACE_ROOT);
    EXPECT_EQ(task.wait(), 0);
    munmap(mine, 4096);
}

TEST_F(reclaim, lets_the_table_be_filled_and_emptied)
{
    if (!want_long())
        GTEST_SKIP() << "2,047 tasks at once: set ONESPACE_LONG=1";
    Footprint before = warmed_up({"true"});
    Pipe gate;
    Descriptor null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    onespace_fd_map fds[] = {{gate.read_end.get(), 0}, {null.get(), 1}};
    Attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char message[256] = "";
    attr.fds = fds;
    attr.fd_count = 2;
    attr.stack_size = 256 * 1024;
    attr.message = message;
    attr.message_size = sizeof(message);
    std::string file = program("plain-static"); // few mappings: vm.max_map_count is 65,530
    Words words = {file, "wait"};
    std::vector<int> ids;
    for (int i = 0; i < ONESPACE_TASKS_MAX; i++) {
        int id = onespace_spawn(file.c_str(), pointers(words).data(), nullptr, &attr);
        ASSERT_GT(id, 0) << i << ": " << message;
        ids.push_back(id);
    }
    Footprint full = Footprint::now();
    EXPECT_EQ(onespace_spawn(file.c_str(), pointers(words).data(), nullptr, &attr), -EAGAIN);
    EXPECT_NE(std::string(message).find("full"), std::string::npos) << message;
    expect_flat(full, 4, 32768); // the list of 30,000 mappings is large itself
    gate.write_end.reset();
    for (int id : ids)
        EXPECT_EQ(onespace_wait(id, nullptr, Patience), id);
    gate.read_end.reset();
    null.reset();
    expect_flat(before, 8, 32768);
    EXPECT_EQ(as_task({"true"}).status, 0);
}

// The reaper must not wait for the reader of a userfaultfd that watches an ended task's memory.
TEST_F(reclaim, of_memory_that_is_watched_keeps_no_other_task_from_starting_and_ending)
{
    auto numbered = [](int number) {
        return [=](Attr &attr) { attr.number = number, attr.ntasks = 2; };
    };
    Task owner({program("watch-unmapping")}, numbered(0));
    Task watcher({program("watch-unmapping")}, numbered(1));
    std::string output = watcher.line();
    EXPECT_EQ(owner.wait(), 0);
    EXPECT_EQ(as_task({"true"}).status, 0);
    EXPECT_EQ(as_task({"false"}).status, 1 << 8);
    watcher.kill_and_wait();
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
    if (output == "ready: unavailable")
        GTEST_SKIP() << "needs userfaultfd";
    EXPECT_EQ(output, "ready: watching");
}
