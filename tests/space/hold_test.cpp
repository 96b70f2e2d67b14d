// tests/space/hold_test.cpp: imported memory stays until it is released, and goes then.
#include "member.hpp"
#include "probe.h"

using namespace fixture;

using holds = SpaceTest;

static bool is_gone(void *address)
{
    return eventually([&] { return onespace_owner(address) == -ENOENT; });
}

static void *import_number(Member &task, int value)
{
    void *address = nullptr;
    EXPECT_EQ(task.tell("export", "number", value).result, 0);
    EXPECT_EQ(onespace_import(task.id(), "number", &address, nullptr, 0), 0);
    return address;
}

TEST_F(holds, keep_an_ended_owners_memory_until_release)
{
    Member task;
    void *address = import_number(task, 42);
    task.kill_and_wait();
    sleep_ms(50);
    EXPECT_EQ(*static_cast<volatile int *>(address), 42);
    EXPECT_EQ(onespace_owner(address), task.id());
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_TRUE(is_gone(address));
    EXPECT_TRUE(eventually([] { return probe_slots() == 0; }));
    EXPECT_EQ(Footprint::now().task_mappings, 0);
}

TEST_F(holds, without_an_import_keep_the_memory_too)
{
    Member task;
    void *address = import_number(task, 42);
    EXPECT_EQ(onespace_hold(task.id()), 0);
    EXPECT_EQ(onespace_release(task.id()), 0);
    task.kill_and_wait();
    sleep_ms(50);
    EXPECT_EQ(*static_cast<volatile int *>(address), 42);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_TRUE(is_gone(address));
    EXPECT_LT(onespace_hold(task.id()), 0);
    EXPECT_EQ(onespace_hold(12345), -ESRCH);
    EXPECT_EQ(onespace_hold(-1), -ESRCH);
}

TEST_F(holds, without_one_the_memory_goes_with_its_owner)
{
    Member task;
    void *address = import_number(task, 1);
    EXPECT_EQ(onespace_release(task.id()), 0);
    task.kill_and_wait();
    EXPECT_TRUE(is_gone(address));
}

TEST_F(holds, are_released_as_often_as_they_were_taken)
{
    Member task;
    void *address = import_number(task, 42), *again = nullptr;
    EXPECT_EQ(onespace_import(task.id(), "number", &again, nullptr, 0), 0);
    EXPECT_EQ(again, address);
    task.kill_and_wait();
    EXPECT_EQ(onespace_release(task.id()), 0);
    sleep_ms(50);
    EXPECT_EQ(*static_cast<volatile int *>(address), 42);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_TRUE(is_gone(address));
    EXPECT_EQ(onespace_release(task.id()), -EINVAL);
}

TEST_F(holds, that_nobody_has_cannot_be_released)
{
    Member task;
    import_number(task, 1);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_EQ(onespace_release(task.id()), -EINVAL);
    EXPECT_EQ(onespace_release(ONESPACE_ROOT), -EINVAL);
    EXPECT_EQ(onespace_release(12345), -EINVAL);
    EXPECT_EQ(onespace_release(-1), -EINVAL);
}

TEST_F(holds, of_several_members_all_count)
{
    Member owner, first, second;
    void *address = import_number(owner, 42);
    EXPECT_EQ(first.tell("import", owner.id(), "number").result, 0);
    EXPECT_EQ(second.tell("import", owner.id(), "number").result, 0);
    owner.kill_and_wait();
    EXPECT_EQ(onespace_release(owner.id()), 0);
    EXPECT_EQ(first.tell("release", owner.id()).result, 0);
    sleep_ms(50);
    EXPECT_EQ(second.tell("read", hex(address)).result, 42);
    EXPECT_EQ(second.tell("release", owner.id()).result, 0);
    EXPECT_TRUE(is_gone(address));
}

TEST_F(holds, of_a_member_that_dies_are_given_back)
{
    Member owner, holder;
    EXPECT_EQ(owner.tell("export", "number", 42).result, 0);
    void *address = holder.tell("import", owner.id(), "number").address;
    owner.kill_and_wait();
    sleep_ms(20);
    EXPECT_EQ(*static_cast<volatile int *>(address), 42);
    holder.kill_and_wait();
    EXPECT_TRUE(is_gone(address));
    EXPECT_EQ(probe_holds(), 0);
}

TEST_F(holds, survive_the_names_removal)
{
    Member task;
    void *address = import_number(task, 42);
    EXPECT_EQ(task.tell("unexport", "number").result, 0);
    task.kill_and_wait();
    sleep_ms(20);
    EXPECT_EQ(*static_cast<volatile int *>(address), 42);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_TRUE(is_gone(address));
}

TEST_F(holds, on_an_ended_task_cannot_be_added)
{
    Member task;
    void *address = import_number(task, 42), *other = nullptr;
    task.kill_and_wait();
    EXPECT_EQ(onespace_import(task.id(), "number", &other, nullptr, 0), -EOWNERDEAD);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_EQ(onespace_release(task.id()), -EINVAL);
    EXPECT_TRUE(is_gone(address));
}

TEST_F(holds, two_members_of_each_other_do_not_keep_both_for_ever)
{
    Member first, second;
    EXPECT_EQ(first.tell("export", "number").result, 0);
    EXPECT_EQ(second.tell("export", "number").result, 0);
    EXPECT_EQ(first.tell("import", second.id(), "number").result, 0);
    EXPECT_EQ(second.tell("import", first.id(), "number").result, 0);
    EXPECT_EQ(first.finish().status, 0);
    EXPECT_EQ(second.finish().status, 0);
    EXPECT_TRUE(
        eventually([] { return Footprint::now().task_mappings == 0 && probe_slots() == 0; }));
    EXPECT_EQ(probe_holds(), 0);
}

TEST_F(holds, of_one_member_on_another_are_65535_at_most)
{
    Member task;
    for (int i = 0; i < UINT16_MAX; i++)
        ASSERT_EQ(onespace_hold(task.id()), 0);
    EXPECT_EQ(onespace_hold(task.id()), -EOVERFLOW);
    EXPECT_EQ(probe_holds(), UINT16_MAX);
    for (int i = 0; i < UINT16_MAX; i++)
        ASSERT_EQ(onespace_release(task.id()), 0);
    EXPECT_EQ(onespace_release(task.id()), -EINVAL);
}

// While an ended task's memory stays held, which holder and owner that live have nothing to do
// with.
TEST_F(holds, on_a_living_task_do_not_wake_the_reaper)
{
    Task ended({"true"}, [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_HOLD; });
    EXPECT_EQ(ended.wait(), 0);
    Member owner;
    unsigned before = probe_events();
    EXPECT_EQ(as_task({program("member"), "hold-often", std::to_string(owner.id()), "10000"}),
              exits("failed 0\n"));
    EXPECT_LT(probe_events() - before, 100u);
    EXPECT_EQ(onespace_release(ended.id()), 0);
    EXPECT_EQ(owner.finish().status, 0);
    EXPECT_TRUE(eventually([] { return probe_slots() == 0; }));
}

// Each release makes the reaper look at what is held; a hold on such memory succeeds.
TEST_F(holds, can_be_added_while_others_are_released)
{
    Task owner({"true"}, [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_HOLD; });
    EXPECT_EQ(owner.wait(), 0);
    EXPECT_EQ(as_task({program("member"), "hold-often", std::to_string(owner.id()), "300000"}),
              exits("failed 0\n"));
    EXPECT_EQ(onespace_release(owner.id()), 0);
    EXPECT_TRUE(eventually([] { return probe_slots() == 0; }));
}

TEST_F(holds, of_a_space_that_ends_do_not_disturb_the_next)
{
    Member task;
    void *address = import_number(task, 42);
    task.kill_and_wait();
    ASSERT_EQ(onespace_fini(), 0);
    ASSERT_EQ(onespace_init(), 0);
    EXPECT_EQ(onespace_owner(address), -ENOENT);
    EXPECT_EQ(as_task({"true"}).status, 0);
}
