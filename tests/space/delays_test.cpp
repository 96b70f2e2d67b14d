// tests/space/delays_test.cpp: races whose critical points a delay makes last (src/base/delay.h). A
// test that is too slow for the delay checks less; it does not fail.
#include "onespace/insitu.h"
#include "probe.h"
#include "registrant.hpp"

extern "C" void onespace_delay(const char *list);

using namespace fixture;

class delays : public SpaceTest
{
  protected:
    void SetUp() override
    {
        setenv("LD_LIBRARY_PATH", ONESPACE_TEST_LIBRARIES "/delays/lib", 1);
        setenv("ONESPACE_AGENT", ONESPACE_TEST_LIBRARIES "/lib/libonespace-agent.so", 1);
        SpaceTest::SetUp();
    }
    // In the tasks that are spawned from now on, or in the root, whose code the reaper and the
    // tasks' system calls run too.
    static void delay_tasks(const char *list)
    {
        setenv("ONESPACE_DELAY", list, 1);
    }
    static void delay_root(const char *list)
    {
        onespace_delay(list);
    }
};

// The member has seen that all others live, and does not sleep yet.
TEST_F(delays, a_barrier_does_not_sleep_through_a_members_end)
{
    delay_tasks("group.wait:300000");
    Member waiting(0, 2), ending(1, 2);
    waiting.order("barrier", -1);
    ASSERT_TRUE(eventually([] { return probe_arrived() == 1; }));
    ending.kill_and_wait();
    EXPECT_EQ(waiting.answer().result, -EOWNERDEAD);
    waiting.kill_and_wait();
}

// Both threads have claimed a slot and found that no member is left.
TEST_F(delays, a_group_is_begun_once_by_two_threads)
{
    Member first(0, 2), second(1, 2);
    EXPECT_EQ(first.finish().status, 0);
    EXPECT_EQ(second.finish().status, 0);
    for (const char *list : {"group.join:100000", "group.begin:100000", "group.count:100000"}) {
        delay_root(list);
        std::unique_ptr<Member> pair[2];
        std::thread other([&] { pair[1] = std::make_unique<Member>(1, 2); });
        pair[0] = std::make_unique<Member>(0, 2);
        other.join();
        pair[0]->order("barrier", Patience);
        EXPECT_EQ(pair[1]->tell("barrier", Patience).result, 0) << list;
        EXPECT_EQ(pair[0]->answer().result, 0) << list;
        EXPECT_EQ(pair[0]->finish().status, 0);
        EXPECT_EQ(pair[1]->finish().status, 0);
    }
}

// Both threads have read 65,534.
TEST_F(delays, a_count_of_holds_does_not_overflow)
{
    Member task;
    for (int i = 0; i < UINT16_MAX - 1; i++)
        ASSERT_EQ(onespace_hold(task.id()), 0);
    delay_root("holds.take:100000");
    int results[2];
    std::thread other([&] { results[1] = onespace_hold(task.id()); });
    results[0] = onespace_hold(task.id());
    other.join();
    delay_root("");
    EXPECT_EQ(std::min(results[0], results[1]), -EOVERFLOW);
    EXPECT_EQ(std::max(results[0], results[1]), 0);
    EXPECT_EQ(probe_holds(), UINT16_MAX);
}

// The holder has released the memory, and asks then whether the reaper has to know; the reaper has
// asked to know, and looks then whether it is held.
TEST_F(delays, memory_goes_that_is_released_while_its_owner_ends)
{
    for (const char *list : {"holds.give:100000", "holds.look:100000"}) {
        Member task;
        EXPECT_EQ(onespace_hold(task.id()), 0);
        delay_root(list);
        task.kill();
        EXPECT_EQ(onespace_release(task.id()), 0);
        delay_root("");
        EXPECT_EQ(task.wait(), SIGKILL);
        EXPECT_TRUE(eventually([] { return probe_slots() == 0; })) << list;
    }
}

// The task has ended, and the thread that has cloned it has not announced it.
TEST_F(delays, a_task_that_ends_before_it_is_announced_has_started)
{
    delay_root("reaper.cloned:200000");
    Spawned task = spawn_task({"true"});
    EXPECT_GT(task.id, 0) << task.message;
    EXPECT_EQ(task.wait(), 0);
}

// The program attaches to a segment of its own, before the reaper has reported that it runs.
TEST_F(delays, a_program_that_is_faster_than_the_reaper_is_a_member)
{
    delay_root("child.report:200000");
    Spawned task = spawn_task({program("segment")});
    onespace_status status = {};
    EXPECT_EQ(onespace_wait(task.id, &status, Patience), task.id);
    EXPECT_EQ(status.status, 0);
}

// One thread's execve fails while another's, which succeeds, has begun.
TEST_F(delays, a_task_leaves_although_another_execve_of_it_fails)
{
    delay_root("exec.enter:200000");
    Task task({program("children"), "exec-twice", "/bin/cat"});
    EXPECT_EQ(task.line(), "execve");
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

// A waiter has read the status of a task that another thread then collects, and the slot's next
// task ends before the waiter goes on.
TEST_F(delays, a_waiter_does_not_collect_the_slots_next_task)
{
    Task first({"true"});
    ASSERT_TRUE(eventually([&] { return has_ended(first.id()); }));
    delay_root("wait.collect:400000");
    int late = 0;
    std::thread other([&] {
        sleep_ms(200);
        late = onespace_wait(first.id(), nullptr, 0);
    });
    int early = first.wait();
    Task second({"false"});
    EXPECT_TRUE(eventually([&] { return has_ended(second.id()); }));
    other.join();
    delay_root("");
    if (early == 0) // else this thread came later
        EXPECT_EQ(late, -ECHILD);
    else
        EXPECT_EQ(late, first.id());
    EXPECT_EQ(second.wait(), 1 << 8);
}

// One registrant exits while its notifier tries whether it can deliver. The other, whose only other
// thread is the notifier, is in a slow execve that fails.
TEST_F(delays, registrations_of_a_busy_registrant_delay_nothing)
{
    Registrant owner, exiting, executing;
    void *memory = owner.memory();
    delay_root("registrations.check:500000");
    EXPECT_EQ(exiting.verbs("reg_mr", memory), -ENOTTY);
    EXPECT_LT(seconds_of([&] {
                  exiting.close_input();
                  EXPECT_EQ(exiting.wait(), 0);
              }),
              8);
    delay_root("exec.enter:2500000");
    EXPECT_EQ(executing.verbs("reg_mr", memory), -ENOTTY);
    EXPECT_EQ(executing.tell("exec-missing").result, -ENOENT);
    EXPECT_LT(seconds_of([&] { EXPECT_EQ(owner.unmap(memory), 0); }), 8);
    EXPECT_EQ(executing.heard(), 1);
}

// The rank has begun to reclaim the entry of step 1 for step 2.
TEST_F(delays, a_rank_that_dies_while_it_reclaims_a_step_does_not_stop_the_others)
{
    onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    options.ranks = 2;
    onespace_insitu *channel = nullptr;
    ASSERT_EQ(onespace_insitu_create("channel", &options, &channel), 0);
    delay_tasks("insitu.reclaim:2000000");
    Task dying({program("insitu"), "rank", "channel", "1", "2"});
    EXPECT_EQ(dying.line(), "created");
    ASSERT_EQ(onespace_insitu_begin(channel, 1, Patience), 0);
    ASSERT_EQ(onespace_insitu_publish(channel), 0);
    dying.write_line("give 1");
    EXPECT_EQ(dying.line(), "0");
    dying.write_line("give 2");
    sleep_ms(300);
    dying.kill_and_wait();
    EXPECT_EQ(onespace_insitu_close(channel, Patience), 0) << onespace_insitu_message();
}
