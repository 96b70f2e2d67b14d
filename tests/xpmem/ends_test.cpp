// tests/xpmem/ends_test.cpp: segments and permits go with their owner, however it goes.
#include <random>

#include "user.hpp"

using namespace fixture;

using xpmem_owner = SpaceTest;
using xpmem_holder = SpaceTest;
using xpmem_chaos = SpaceTest;

TEST_F(xpmem_owner, that_is_killed_takes_its_segments_along)
{
    User owner;
    owner.share(1, 0);
    Reply apid = get(owner.segid);
    owner.kill_and_wait();
    EXPECT_EQ(get(owner.segid), fails(ENOENT));
    EXPECT_EQ(attach(apid.result, 0, Page), fails(ENOENT));
    EXPECT_EQ(remove_segment(owner.segid), fails(ENOENT));
    EXPECT_EQ(release(apid.result), gives(0));
}

// The module would give SIGBUS. A hold is what an import has, too.
TEST_F(xpmem_owner, that_has_ended_is_held_by_permits)
{
    User owner;
    owner.share(2, 42);
    Reply apid = get(owner.segid);
    void *attached = attach(apid.result, Page, Page).address();
    EXPECT_EQ(detach(attached), gives(0));
    owner.kill_and_wait();
    sleep_ms(50);
    EXPECT_EQ(byte_at(attached), 42);
    EXPECT_EQ(release(apid.result), gives(0));
    EXPECT_TRUE(is_gone(attached));
    EXPECT_TRUE(eventually([] { return probe_slots() == 0; })); // a little later
    EXPECT_EQ(probe_holds(), 0);
}

TEST_F(xpmem_owner, without_permits_is_not_held)
{
    User owner;
    owner.share(1, 42);
    Reply apid = get(owner.segid);
    void *attached = attach(apid.result, 0, Page).address();
    EXPECT_EQ(release(apid.result), gives(0));
    owner.kill_and_wait();
    EXPECT_TRUE(is_gone(attached));
}

TEST_F(xpmem_owner, that_executes_another_program_takes_its_segments_along)
{
    User owner, other;
    owner.share(1, 42);
    Reply apid = get(owner.segid);
    void *attached = attach(apid.result, 0, Page).address();
    owner.write_line("exec cat");
    EXPECT_TRUE(eventually([&] { return attach(apid.result, 0, Page) == fails(ENOENT); }));
    EXPECT_EQ(get(owner.segid), fails(ENOENT));
    EXPECT_EQ(other.tell("get", owner.segid, XPMEM_RDWR), fails(ENOENT));
    EXPECT_EQ(byte_at(attached), 42);
    EXPECT_EQ(release(apid.result), gives(0));
    EXPECT_TRUE(is_gone(attached));
    owner.write_line("still there"); // as cat
    EXPECT_EQ(owner.line(), "still there");
}

TEST_F(xpmem_owner, that_fails_to_execute_stays)
{
    User owner;
    owner.share(1, 42);
    EXPECT_EQ(owner.tell("exec", "/no/such/program"), fails(ENOENT));
    EXPECT_GT(get(owner.segid).result, 0);
}

TEST_F(xpmem_owner, leaves_nothing_to_the_next_task_of_its_slot)
{
    long long stale;
    {
        User owner;
        owner.share(1, 1);
        stale = owner.segid;
        EXPECT_EQ(owner.finish().status, 0);
    }
    User next; // in the same slot
    EXPECT_EQ(get(stale), fails(ENOENT));
    next.share(1, 2);
    EXPECT_EQ(get(stale), fails(ENOENT));
    EXPECT_EQ(stale >> 32, next.segid >> 32); // the same entry, used as often
    EXPECT_GT(get(next.segid).result, 0);
}

TEST_F(xpmem_holder, that_ends_gives_its_permits_back)
{
    User owner, holder;
    owner.share(1, 42);
    long long apid = holder.tell("get", owner.segid, XPMEM_RDWR).result;
    void *attached = holder.tell("attach", apid, 0, Page).address();
    owner.kill_and_wait();
    sleep_ms(20);
    EXPECT_EQ(byte_at(attached), 42);
    EXPECT_EQ(attach(apid, 0, Page), fails(ENOENT));
    holder.kill_and_wait();
    EXPECT_TRUE(is_gone(attached));
    EXPECT_EQ(release(apid), fails(ENOENT));
    EXPECT_EQ(probe_holds(), 0);
}

TEST_F(xpmem_holder, in_a_forked_child_is_none)
{
    if (access("/dev/xpmem", F_OK) == 0)
        GTEST_SKIP() << "here the kernel module serves forked children";
    User owner, user;
    owner.share(1, 0);
    long long apid = user.tell("get", owner.segid, XPMEM_RDWR).result;
    EXPECT_EQ(user.tell("child", "make", 0, Page, "0600"), fails(ENOENT));
    EXPECT_EQ(user.tell("child", "get", owner.segid, XPMEM_RDWR), fails(ENOENT));
    EXPECT_EQ(user.tell("child", "attach", apid, 0, Page), fails(ENOENT));
    EXPECT_EQ(user.tell("child", "release", apid), fails(ENOENT));
    EXPECT_EQ(user.tell("child", "version"), fails(ENOENT));
    EXPECT_EQ(user.tell("attach", apid, 0, Page), gives(owner.memory));
}

TEST_F(xpmem_holder, of_its_own_memory_does_not_keep_it)
{
    User user;
    user.share(1, 0);
    EXPECT_GT(user.tell("get", user.segid, XPMEM_RDWR).result, 0);
    EXPECT_EQ(user.finish().status, 0);
    EXPECT_TRUE(is_gone(reinterpret_cast<void *>(user.memory)));
    EXPECT_EQ(probe_holds(), 0);
}

// Tasks do everything at once and are killed at any instruction: none of them gets another
// segment's memory, and nothing is left.
TEST_F(xpmem_chaos, of_tasks_killed_at_any_moment_leaves_a_sound_space)
{
    static xpmem_segid_t board[64];
    std::ostringstream address;
    address << std::hex << reinterpret_cast<uintptr_t>(board);
    unsigned seed = std::random_device()();
    if (const char *given = getenv("ONESPACE_SEED"))
        seed = static_cast<unsigned>(strtoul(given, nullptr, 10));
    SCOPED_TRACE("ONESPACE_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<Task>> tasks;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(want_long() ? 60 : 5);
    while (std::chrono::steady_clock::now() < end && !HasFailure()) {
        while (tasks.size() < 4)
            tasks.push_back(std::make_unique<Task>(
                Words{program("xpmem-chaos"), std::to_string(random()), address.str()}));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 12000));
        size_t at = random() % tasks.size();
        (void)!onespace_kill(tasks[at]->id(), SIGKILL);
        EXPECT_EQ(tasks[at]->finish(), (Outcome{"", SIGKILL}));
        tasks.erase(tasks.begin() + static_cast<long>(at));
    }
    for (auto &task : tasks) {
        task->kill();
        EXPECT_EQ(task->finish(), (Outcome{"", SIGKILL}));
    }
    EXPECT_TRUE(eventually([] { return probe_slots() == 0; }));
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
    EXPECT_EQ(probe_holds(), 0);
}
