// tests/space/barrier_test.cpp: the barrier of the tasks that were started together.
#include <sys/mman.h>

#include "member.hpp"
#include "probe.h"

using namespace fixture;

class barrier : public SpaceTest
{
  protected:
    void start(int count)
    {
        for (int i = 0; i < count; i++)
            tasks.push_back(std::make_unique<Member>(i, count));
        for (auto &task : tasks)
            EXPECT_GT(task->tell("self").result, 0);
    }
    void finish()
    {
        for (auto &task : tasks)
            EXPECT_EQ(task->finish().status, 0);
        tasks.clear();
    }
    std::vector<std::unique_ptr<Member>> tasks;
};

TEST_F(barrier, lets_all_go_when_the_last_arrives)
{
    start(3);
    tasks[0]->order("barrier", Patience);
    tasks[1]->order("barrier", Patience);
    sleep_ms(50);
    EXPECT_EQ(onespace_kill(tasks[0]->id(), 0), 0);
    tasks[2]->order("barrier", Patience);
    for (auto &task : tasks)
        EXPECT_EQ(task->answer().result, 0);
    finish();
}

TEST_F(barrier, orders_memory_round_after_round)
{
    void *shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start(3);
    for (auto &task : tasks)
        task->order("barriers", 300, hex(shared));
    for (auto &task : tasks)
        EXPECT_EQ(task->answer().result, 300);
    finish();
}

TEST_F(barrier, takes_an_arrival_back_at_its_timeout)
{
    start(2);
    EXPECT_EQ(tasks[0]->tell("barrier", 0).result, -ETIMEDOUT);
    EXPECT_EQ(tasks[0]->tell("barrier", 50).result, -ETIMEDOUT);
    EXPECT_EQ(tasks[1]->tell("barrier", 50).result, -ETIMEDOUT)
        << "the other's arrival was taken back";
    tasks[0]->order("barrier", Patience);
    EXPECT_EQ(tasks[1]->tell("barrier", Patience).result, 0);
    EXPECT_EQ(tasks[0]->answer().result, 0);
    finish();
}

TEST_F(barrier, breaks_when_a_participant_dies)
{
    start(3);
    tasks[0]->order("barrier", Patience);
    tasks[1]->order("barrier", Patience);
    sleep_ms(50);
    tasks[2]->kill();
    EXPECT_EQ(tasks[0]->answer().result, -EOWNERDEAD);
    EXPECT_EQ(tasks[1]->answer().result, -EOWNERDEAD);
    EXPECT_EQ(tasks[0]->tell("barrier", Patience).result, -EOWNERDEAD) << "and stays so";
    EXPECT_EQ(tasks[2]->wait(), SIGKILL);
    tasks.pop_back();
    finish();
}

TEST_F(barrier, breaks_when_a_participant_dies_in_it)
{
    start(3);
    tasks[0]->order("barrier", Patience);
    tasks[1]->order("barrier", Patience);
    sleep_ms(50);
    tasks[1]->kill();
    EXPECT_EQ(tasks[0]->answer().result, -EOWNERDEAD);
    EXPECT_EQ(tasks[2]->tell("barrier", Patience).result, -EOWNERDEAD);
    EXPECT_EQ(tasks[1]->wait(), SIGKILL);
    tasks.erase(tasks.begin() + 1);
    finish();
}

TEST_F(barrier, works_for_the_next_group)
{
    for (int round = 0; round < 3; round++) {
        start(2);
        tasks[0]->order("barrier", Patience);
        EXPECT_EQ(tasks[1]->tell("barrier", Patience).result, 0);
        EXPECT_EQ(tasks[0]->answer().result, 0);
        if (round == 1)
            tasks[0]->kill();
        else
            tasks[0]->close_input();
        EXPECT_EQ(tasks[0]->wait(), round == 1 ? SIGKILL : 0);
        EXPECT_EQ(tasks[1]->finish().status, 0);
        tasks.clear();
    }
}

// Both threads begin the next group, or one joins what the other has begun.
TEST_F(barrier, works_for_groups_that_two_threads_spawn_at_once)
{
    for (int round = 0; round < 300 && !HasFailure(); round++) {
        std::unique_ptr<Member> pair[2];
        std::atomic<int> ready = 0;
        auto spawn = [&](int number) {
            for (ready++; ready < 2;)
                ;
            pair[number] = std::make_unique<Member>(number, 2);
        };
        std::thread other(spawn, 1);
        spawn(0);
        other.join();
        pair[0]->order("barrier", Patience);
        EXPECT_EQ(pair[1]->tell("barrier", Patience).result, 0);
        EXPECT_EQ(pair[0]->answer().result, 0);
        for (auto &task : pair)
            EXPECT_EQ(task->finish().status, 0);
    }
}

// A spawner that fails has announced a member that the others would wait for.
TEST_F(barrier, breaks_when_a_participant_cannot_be_made)
{
    tasks.push_back(std::make_unique<Member>(0, 2));
    tasks[0]->order("barrier", Patience);
    EXPECT_TRUE(eventually([] { return probe_arrived() == 1; }));
    Attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.number = 1;
    attr.ntasks = 2;
    attr.directory = open("/proc/self/maps", O_RDONLY); // the child cannot enter it
    std::string name = program("obey");
    char *argv[] = {name.data(), nullptr};
    EXPECT_EQ(onespace_spawn(argv[0], argv, nullptr, &attr), -ENOTDIR);
    close(attr.directory);
    EXPECT_EQ(tasks[0]->answer().result, -EOWNERDEAD);
    finish();
}

TEST_F(barrier, may_be_entered_before_the_others_are_started)
{
    tasks.push_back(std::make_unique<Member>(1, 2));
    tasks[0]->order("barrier", Patience);
    sleep_ms(50);
    tasks.push_back(std::make_unique<Member>(0, 2));
    EXPECT_EQ(tasks[1]->tell("barrier", Patience).result, 0);
    EXPECT_EQ(tasks[0]->answer().result, 0);
    finish();
}

TEST_F(barrier, is_not_disturbed_by_tasks_without_a_number)
{
    start(2);
    tasks[0]->order("barrier", Patience);
    EXPECT_EQ(as_task({"true"}).status, 0);
    EXPECT_EQ(tasks[1]->tell("barrier", Patience).result, 0);
    EXPECT_EQ(tasks[0]->answer().result, 0);
    finish();
}

TEST_F(barrier, needs_a_number)
{
    Member task;
    EXPECT_EQ(task.tell("barrier", 0).result, -ENOENT);
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(onespace_barrier(0), -ENOENT);
}
