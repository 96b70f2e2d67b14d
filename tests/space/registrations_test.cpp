// tests/space/registrations_test.cpp: memory that a member has registered with a device, and
// another unmaps (space/registrations.h). The guest registrant.c has a cache of registrations.
#include <tuple>

#include "probe.h"
#include "registrant.hpp"

using namespace fixture;

namespace
{

class registrations : public SpaceTest
{
  protected:
    // False, and the test is skipped, where io_uring is not permitted.
    static bool can_send(Registrant &from, const void *to)
    {
        int result = from.send(to, 'Y');
        EXPECT_TRUE(result == Size || result == -EPERM || result == -ENOSYS) << result;
        return result == Size;
    }
    // All of its threads, the notifier too.
    static void stop(Registrant &task)
    {
        task.kill(SIGSTOP);
        EXPECT_TRUE(eventually([&] { return task.state() == 'T'; }));
    }
};

struct Way {
    const char *memory, *way;
};

// The program whose cache it is, and a way.
class unmapping_registered : public registrations,
                             public testing::WithParamInterface<std::tuple<const char *, Way>>
{
};

} // namespace

// The data arrives in the new pages, not in those that the old registration has pinned.
TEST_P(unmapping_registered, ends_the_registration)
{
    auto [guest, unmapping] = GetParam();
    auto [kind, way] = unmapping;
    if (!is_built(guest))
        GTEST_SKIP() << "no ucs/memory/rcache.h (package libucx-dev)";
    Registrant owner, other(guest);
    void *memory = owner.memory(kind);
    if (!can_send(other, memory))
        GTEST_SKIP() << "io_uring is not permitted";
    EXPECT_EQ(owner.count(memory, 'Y'), Size);
    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(owner.tell("renew", way, memory, Size).result, 0);
        EXPECT_EQ(other.send(memory, 'A' + round), Size);
        EXPECT_EQ(owner.count(memory, 'A' + round), Size);
    }
    EXPECT_GE(other.heard(), 1);
}

static std::string name_of_way(const testing::TestParamInfo<std::tuple<const char *, Way>> &tested)
{
    auto [guest, unmapping] = tested.param;
    std::string name = std::string(guest) + "_" + unmapping.memory + "_" + unmapping.way;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(
    , unmapping_registered,
    testing::Combine(testing::Values("registrant", "registrant-ucx"),
                     testing::Values(Way{"mmap", "munmap"}, Way{"mmap", "system-call"},
                                     Way{"mmap", "mmap"}, Way{"mmap", "mremap-away"},
                                     Way{"mmap", "mremap-over"}, Way{"mmap", "mremap-smaller"},
                                     Way{"mmap", "dontneed"}, Way{"outside", "munmap"},
                                     Way{"outside", "mmap"}, Way{"break", "break"},
                                     Way{"segment", "shmdt"})),
    name_of_way);

// The memory of the next task, which gets the slot and its addresses, is registered anew.
TEST_F(registrations, end_with_their_owner)
{
    Registrant other;
    auto owner = std::make_unique<Registrant>();
    int id = owner->id();
    void *memory = owner->memory();
    if (!can_send(other, memory))
        GTEST_SKIP() << "io_uring is not permitted";
    owner->kill_and_wait();
    ASSERT_TRUE(eventually([&] { return probe_slots() == 1; }));
    EXPECT_EQ(other.heard(), 1);
    Registrant next;
    EXPECT_EQ(next.id() % LAYOUT_SLOTS, static_cast<unsigned>(id) % LAYOUT_SLOTS);
    EXPECT_EQ(next.memory(), memory);
    EXPECT_EQ(other.send(memory, 'Z'), Size);
    EXPECT_EQ(next.count(memory, 'Z'), Size);
}

// Addresses are not used again while a registration may be. Neither does the reaper wait: other
// tasks start and end.
TEST_F(registrations, of_a_stopped_task_hold_the_memory_of_an_ended_one)
{
    Registrant other, owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    stop(other);
    owner.kill_and_wait();
    EXPECT_EQ(Outcome(Task({"true"}).finish()), exits(""));
    EXPECT_TRUE(eventually([] { return probe_slots() == 2; }));
    EXPECT_EQ(other.state(), 'T');
    other.kill(SIGCONT);
    EXPECT_TRUE(eventually([] { return probe_slots() == 1; }));
    EXPECT_EQ(other.heard(), 1);
}

TEST_F(registrations, of_an_ended_task_hold_nothing)
{
    Registrant other, owner;
    EXPECT_EQ(other.verbs("reg_mr", owner.memory()), -ENOTTY);
    stop(other);
    owner.kill_and_wait();
    EXPECT_EQ(probe_slots(), 2);
    other.kill_and_wait();
    EXPECT_TRUE(eventually([] { return probe_slots() == 0; }));
}

// It has imported the memory, so it stays, and the registration with it.
TEST_F(registrations, of_imported_memory_last_as_long_as_that)
{
    Registrant other;
    auto owner = std::make_unique<Registrant>();
    void *memory = owner->memory();
    EXPECT_EQ(owner->tell("export", "memory", memory, Size).result, 0);
    EXPECT_EQ(other.tell("import", "memory", nullptr, 0, owner->id()).address, memory);
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    owner->kill_and_wait();
    EXPECT_EQ(Outcome(Task({"true"}).finish()), exits("")); // the reaper has looked
    EXPECT_EQ(other.heard(), 0);
    EXPECT_EQ(other.count(memory, 'a'), Size);
}

// The hook runs for a long time when its task is killed.
TEST_F(registrations, of_a_task_that_is_killed_are_not_waited_for)
{
    Registrant other, owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    other.tell("delay", "-", nullptr, 0, 1000000);
    owner.order("unmap", "-", memory, Size, 0);
    ASSERT_TRUE(eventually([&] { return other.tell("heard-at").result != 0; }));
    EXPECT_LT(seconds_of([&] {
                  other.kill_and_wait();
                  EXPECT_EQ(owner.answer().result, 0);
              }),
              8);
}

TEST_F(registrations, are_waited_for_until_the_hook_has_returned)
{
    Registrant other, owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    other.tell("delay", "-", nullptr, 0, 300);
    EXPECT_GE(seconds_of([&] { EXPECT_EQ(owner.unmap(memory), 0); }), 0.3);
    EXPECT_EQ(other.heard(), 1);
}

// Ten seconds, for each unmapping; the message comes once.
TEST_F(registrations, of_a_stopped_task_delay_an_unmapping_for_ten_seconds)
{
    if (!want_long())
        GTEST_SKIP() << "takes long: ONESPACE_LONG=1";
    Registrant other, owner;
    char *memory = static_cast<char *>(owner.memory("mmap", 2 * Size));
    EXPECT_EQ(other.verbs("reg_mr", memory, 2 * Size), -ENOTTY);
    stop(other);
    for (int i = 0; i < 2; i++) {
        owner.order("unmap", "-", memory + i * Size, Size, 0);
        std::string message = i == 0 ? owner.line() : "";
        EXPECT_EQ(message.find("does not hear within 10 seconds") != std::string::npos, i == 0);
        EXPECT_EQ(owner.answer().result, 0);
    }
    other.kill(SIGCONT);
    EXPECT_TRUE(eventually([&] { return other.heard() == 2; }));
}

TEST_F(registrations, of_own_memory_are_its_libcs_matter)
{
    Registrant task, owner;
    void *own = task.memory(), *segment = task.memory("segment");
    EXPECT_EQ(task.verbs("reg_mr", own), -ENOTTY);
    EXPECT_EQ(task.verbs("reg_mr", segment), -ENOTTY);
    EXPECT_EQ(probe_registrants(), 0);
    EXPECT_EQ(task.verbs("reg_mr", owner.memory()), -ENOTTY);
    EXPECT_EQ(probe_registrants(), 1);
}

TEST_F(registrations, are_seen_in_every_call_of_libibverbs)
{
    for (const char *way : {"reg_mr", "rereg_mr", "method"}) {
        Registrant other, owner;
        void *memory = owner.memory();
        EXPECT_EQ(other.verbs(way, memory), -ENOTTY) << way;
        EXPECT_EQ(owner.unmap(memory), 0);
        EXPECT_EQ(other.heard(), 1) << way;
    }
}

// The kernel answers.
TEST_F(registrations, with_wrong_arguments_are_not_recorded)
{
    Registrant other, owner;
    void *memory = owner.memory();
    for (const char *way : {"many-attributes", "bad-pointer", "bad-call"})
        EXPECT_EQ(other.verbs(way, memory), -ENOTTY) << way;
    EXPECT_EQ(other.verbs("reg_mr", memory, 0), -ENOTTY);
    EXPECT_EQ(other.verbs("reg_mr", reinterpret_cast<void *>(~0ul - 4095), 8192), -ENOTTY);
    EXPECT_EQ(probe_registrants(), 0);
}

// Only what was registered is told, once: parts of pages count as whole ones.
TEST_F(registrations, are_told_of_their_own_pages)
{
    Registrant other, owner;
    char *memory = static_cast<char *>(owner.memory());
    EXPECT_EQ(other.verbs("reg_mr", memory + 8192 + 100, 8), -ENOTTY);
    EXPECT_EQ(owner.unmap(memory, 8192), 0);
    EXPECT_EQ(owner.unmap(memory + 8192 + 4096, 8192), 0);
    EXPECT_EQ(other.heard(), 0);
    EXPECT_EQ(owner.unmap(memory + 8192, 4096), 0);
    EXPECT_EQ(other.heard(), 1);
    EXPECT_EQ(owner.unmap(memory), 0);
    EXPECT_EQ(other.heard(), 1);
}

// The records that do not fit push others out, which are told as if their memory went.
TEST_F(registrations, that_are_too_many_for_the_table_are_told_early)
{
    Registrant other, owner;
    const size_t pages = 2 * 17000;
    char *memory = static_cast<char *>(owner.memory("mmap", pages * 4096));
    for (int done = 0; done < 17000; done += 500)
        EXPECT_EQ(other.tell("verbs-many", "-", memory + done * 2 * 4096, 4096, 500).result, 0);
    int before = other.heard();
    EXPECT_GE(before, 1);
    EXPECT_EQ(owner.unmap(memory + (pages - 2) * 4096, 4096), 0);
    EXPECT_EQ(other.heard(), before + 1);
}

TEST_F(registrations, of_a_childs_copy_are_not_touched)
{
    Registrant other, owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    EXPECT_EQ(owner.tell("unmap-in-child", "-", memory, Size).result, 0);
    EXPECT_EQ(other.heard(), 0);
}

// Each hook unmaps memory that the other has registered.
TEST_F(registrations, may_be_unmapped_in_a_hook)
{
    Registrant one, two;
    void *memories[] = {one.memory(), one.memory(), two.memory(), two.memory()};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(two.verbs("reg_mr", memories[i]), -ENOTTY);
        EXPECT_EQ(one.verbs("reg_mr", memories[2 + i]), -ENOTTY);
    }
    one.tell("unmap-in-hook", "-", memories[1], Size);
    two.tell("unmap-in-hook", "-", memories[3], Size);
    EXPECT_LT(seconds_of([&] {
                  one.order("unmapping", "-", memories[0], Size, 0);
                  two.order("unmapping", "-", memories[2], Size, 0);
                  EXPECT_EQ(one.answer().result, 0);
                  EXPECT_EQ(two.answer().result, 0);
              }),
              8);
    EXPECT_TRUE(eventually([&] { return one.heard() == 2 && two.heard() == 2; }));
}

// The notifier does not keep the process, whose other threads have ended.
TEST_F(registrations, let_a_program_end_whose_main_thread_has_left)
{
    Registrant other, owner;
    EXPECT_EQ(other.verbs("reg_mr", owner.memory()), -ENOTTY);
    other.order("pthread-exit", "-", nullptr, 0, 0);
    EXPECT_EQ(other.wait(), 0);
}

// The process has other threads: the spawner's main thread, and its notifier.
TEST_F(registrations, let_a_task_in_thread_mode_end_whose_main_thread_has_left)
{
    Registrant other, owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    other.order("thread-mode", "-", nullptr, 0, 0);
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    other.order("pthread-exit", "-", nullptr, 0, 0);
    EXPECT_EQ(other.answer().result, 0);
}

// C libraries change the ids of all threads by a signal that no thread may block.
TEST_F(registrations, leave_the_libc_its_signals)
{
    Registrant other, owner;
    EXPECT_EQ(other.verbs("reg_mr", owner.memory()), -ENOTTY);
    EXPECT_EQ(other.tell("setgid").result, 0);
}

// The same with musl, whose membership has no mark of the kernel's.
TEST_F(registrations, of_a_program_of_musl_end_as_they_must)
{
    if (!is_built("registrant-musl"))
        GTEST_SKIP() << "no musl-gcc (package musl-tools)";
    Registrant other("registrant-musl"), owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    EXPECT_EQ(owner.unmap(memory), 0);
    EXPECT_EQ(other.heard(), 1);
    EXPECT_EQ(other.tell("setgid").result, 0);
    other.order("pthread-exit", "-", nullptr, 0, 0);
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(registrations, are_told_of_by_programs_that_unmap_in_other_ways)
{
    Registrant other, owner;
    void *memory = owner.memory();
    EXPECT_EQ(other.verbs("reg_mr", memory), -ENOTTY);
    EXPECT_EQ(owner.tell("unmapping", "-", memory, Size).result, 0);
    EXPECT_EQ(other.heard(), 1);
    EXPECT_EQ(owner.tell("unmapping", "-", memory, 0).result, -EINVAL);
    EXPECT_EQ(owner.tell("unmapping", "-", reinterpret_cast<void *>(~0ul - 4095), 8192).result,
              -EINVAL);
}

// Many owners and registrants at once. Each transfer that comes after an unmapping arrives.
TEST_F(registrations, of_many_tasks_at_once_arrive)
{
    Registrant owners[3], others[3];
    void *memories[3];
    for (int i = 0; i < 3; i++)
        memories[i] = owners[i].memory();
    if (!can_send(others[0], memories[0]))
        GTEST_SKIP() << "io_uring is not permitted";
    const char *ways[] = {"munmap", "mmap", "dontneed", "mremap-away"};
    for (int round = 0; round < (want_long() ? 2000 : 100); round++) {
        for (int i = 0; i < 3; i++)
            owners[i].order("renew", ways[(round + i) % 4], memories[i], Size, 0);
        for (int i = 0; i < 3; i++)
            ASSERT_EQ(owners[i].answer().result, 0);
        for (int i = 0; i < 3; i++)
            others[i].order("send", "-", memories[(round + i) % 3], Size, 'A' + round % 26);
        for (int i = 0; i < 3; i++)
            ASSERT_EQ(others[i].answer().result, Size);
        for (int i = 0; i < 3; i++)
            ASSERT_EQ(owners[i].count(memories[i], 'A' + round % 26), Size) << round;
    }
}
