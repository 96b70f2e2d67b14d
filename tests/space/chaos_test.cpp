// tests/space/chaos_test.cpp: tasks die at any instruction, and the space goes on.
#include <random>

#include "member.hpp"
#include "probe.h"

using namespace fixture;

using chaos = SpaceTest;

namespace
{

// Tasks of chaos.c; some are killed and replaced all the time.
class Tasks
{
  public:
    explicit Tasks(unsigned seed) : random_(seed)
    {
    }

    void fill(size_t size)
    {
        while (tasks_.size() < size) {
            Words words = {program("chaos"), std::to_string(random_() % 100000)};
            if (tasks_.empty()) // the first is the one that starts groups
                words.push_back("numbered");
            tasks_.push_back(std::make_unique<Task>(words));
        }
    }
    // The status of the killed task, which must have lived until then.
    int kill_one(size_t at)
    {
        Task &task = *tasks_[at];
        int result = onespace_kill(task.id(), SIGKILL);
        EXPECT_EQ(result, 0);
        int status = task.wait();
        tasks_.erase(tasks_.begin() + static_cast<long>(at));
        return status;
    }
    void kill_some()
    {
        size_t at = random_() % tasks_.size();
        int status = kill_one(at);
        EXPECT_EQ(status, SIGKILL);
    }
    size_t size() const
    {
        return tasks_.size();
    }

  private:
    std::mt19937 random_;
    std::vector<std::unique_ptr<Task>> tasks_;
};

// Everything that a task did is undone, and everything works.
void expect_clean()
{
    // The tasks whose spawners were killed are the root's to wait for.
    int id;
    while ((id = onespace_wait(ONESPACE_ANY, nullptr, Patience)) > 0)
        ;
    EXPECT_EQ(id, -ECHILD);
    char slots[4096];
    bool all_free = eventually([] { return probe_slots() == 0; });
    probe_describe(slots, sizeof(slots));
    EXPECT_TRUE(all_free) << slots;
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
    EXPECT_EQ(probe_exports(), 0);
    EXPECT_EQ(probe_holds(), 0);
}

void expect_working()
{
    void *address = nullptr;
    Member first(0, 2), second(1, 2);
    EXPECT_EQ(first.tell("export", "number", 12).result, 0);
    EXPECT_EQ(second.tell("import", first.id(), "number").number(), 12);
    EXPECT_EQ(onespace_import(first.id(), "number", &address, nullptr, 0), 0);
    first.order("barrier", Patience);
    EXPECT_EQ(second.tell("barrier", Patience).result, 0);
    EXPECT_EQ(first.answer().result, 0);
    EXPECT_EQ(first.finish().status, 0);
    EXPECT_EQ(second.tell("read", hex(address)).result, 12);
    EXPECT_EQ(second.tell("release", first.id()).result, 0);
    EXPECT_EQ(second.finish().status, 0);
    EXPECT_EQ(onespace_release(first.id()), 0);
    EXPECT_EQ(as_task({program("member"), "spawn", program("state"), "exit", "9"}),
              exits("ended 9\n"));
}

void expect_killed(Task &task)
{
    task.kill_and_wait();
}

} // namespace

TEST_F(chaos, of_tasks_killed_at_any_moment_leaves_a_sound_space)
{
    unsigned seed = std::random_device()();
    if (const char *given = getenv("ONESPACE_SEED"))
        seed = static_cast<unsigned>(strtoul(given, nullptr, 10));
    SCOPED_TRACE("ONESPACE_SEED=" + std::to_string(seed));
    Tasks tasks(seed);
    std::mt19937 pauses(seed);
    expect_working();
    Footprint before = Footprint::now();
    // Memory is copied on write all the time.
    auto forker = std::make_unique<Task>(Words{program("member"), "fork-for-ever"});
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(want_long() ? 120 : 6);
    while (std::chrono::steady_clock::now() < end && !HasFailure()) {
        tasks.fill(5);
        std::this_thread::sleep_for(std::chrono::microseconds(pauses() % 15000));
        tasks.kill_some();
    }
    while (tasks.size())
        tasks.kill_one(tasks.size() - 1);
    expect_killed(*forker);
    forker.reset();
    expect_clean();
    expect_working();
    expect_clean();
    expect_flat(before, 6, 2048);
}

// The spawner's critical section alone, which is the longest.
TEST_F(chaos, of_spawners_killed_while_they_spawn_leaves_no_slots)
{
    Footprint before = Footprint::now();
    for (int i = 0; i < 150 && !HasFailure(); i++) {
        Task task({program("member"), "spawn-for-ever", "true"});
        std::this_thread::sleep_for(std::chrono::microseconds(2000 + i * 37 % 8000));
        expect_killed(task);
    }
    expect_clean();
    expect_working();
    expect_clean();
    expect_flat(before, 6, 2048);
}

// The kernel stores a new task's pid for a spawner that may be killed meanwhile: it does not try
// again, so the store must not have to wait while the memory map is copied.
TEST_F(chaos, of_spawners_killed_while_others_fork_leaves_no_slots)
{
    Task first({program("member"), "fork-for-ever"}), second({program("member"), "fork-for-ever"});
    for (int i = 0; i < (want_long() ? 5000 : 400) && !HasFailure(); i++) {
        Task task({program("member"), "spawn-for-ever", "true"});
        std::this_thread::sleep_for(std::chrono::microseconds(2000 + i * 37 % 8000));
        expect_killed(task);
    }
    expect_killed(first);
    expect_killed(second);
    expect_clean();
    expect_working();
}

// Entries change hands all the time, and some are half made when their maker dies.
TEST_F(chaos, of_exporters_killed_while_they_export_leaves_no_names)
{
    for (int i = 0; i < 60 && !HasFailure(); i++) {
        Task first({program("member"), "export-for-ever"}),
            second({program("member"), "export-for-ever"});
        std::this_thread::sleep_for(std::chrono::microseconds(3000 + i * 37 % 8000));
        expect_killed(first);
        expect_killed(second);
    }
    int longest, mean;
    probe_search_steps(&longest, &mean);
    EXPECT_LE(longest, 16);
    expect_clean();
    expect_working();
    expect_clean();
}
