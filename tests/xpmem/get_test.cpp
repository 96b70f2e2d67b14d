// tests/xpmem/get_test.cpp: permits: getting them, and giving them back.
#include "user.hpp"

using namespace fixture;

using xpmem_getting = SpaceTest;
using xpmem_releasing = SpaceTest;

TEST_F(xpmem_getting, gives_positive_ids_with_the_callers_process_id_below)
{
    User owner;
    owner.share(1, 0);
    Reply apid = get(owner.segid);
    EXPECT_GT(apid.result, 0);
    EXPECT_EQ(apid.result & 0xffffffff, getpid());
    EXPECT_NE(get(owner.segid).result, apid.result);
}

// As User, but a thread of the root's process.
class ThreadUser
{
  public:
    ThreadUser()
        : spawned_(spawn_task({program("xpmem"), std::to_string(in_.read_end.get()),
                               std::to_string(out_.write_end.get())},
                              as_thread))
    {
        EXPECT_GT(spawned_.id, 0) << spawned_.message;
    }
    ~ThreadUser()
    {
        in_.write_end.reset();
        EXPECT_EQ(spawned_.wait(), 0);
    }
    Reply tell(const std::string &words)
    {
        std::string line = words + "\n";
        EXPECT_EQ(write(in_.write_end.get(), line.data(), line.size()),
                  static_cast<ssize_t>(line.size()));
        return parse(read_line(out_.read_end.get()));
    }
    // The id of a segment of one page, and its address.
    std::pair<long long, Reply> share()
    {
        Reply memory = tell("memory 4096 42");
        return {tell("make " + std::to_string(memory.result) + " 4096 0600").result, memory};
    }

  private:
    Pipe in_, out_;
    Spawned spawned_;
};

// Each has tables of its own.
TEST_F(xpmem_getting, finds_segments_of_tasks_that_are_threads)
{
    ThreadUser owner, peer;
    Memory memory(1);
    auto [first, first_memory] = owner.share();
    auto [second, second_memory] = peer.share();
    long long own = make(memory.at(), Page).result;
    EXPECT_EQ(attach(get(own).result, 0, Page).address(), memory.at());
    EXPECT_EQ(attach(get(first).result, 0, Page), first_memory);
    EXPECT_EQ(attach(get(second).result, 0, Page), second_memory);
    Reply apid = peer.tell("get " + std::to_string(first) + " 2");
    EXPECT_EQ(peer.tell("attach " + std::to_string(apid.result) + " 0 4096"), first_memory);
    EXPECT_EQ(peer.tell("remove " + std::to_string(first)), fails(EACCES));
    EXPECT_EQ(owner.tell("remove " + std::to_string(first)), gives(0));
    EXPECT_EQ(get(first), fails(ENOENT));
}

TEST_F(xpmem_getting, works_for_oneself)
{
    Memory memory(1);
    Reply apid = get(make(memory.at(), Page).result);
    EXPECT_EQ(attach(apid.result, 0, Page).address(), memory.at());
    EXPECT_EQ(release(apid.result), gives(0));
}

TEST_F(xpmem_getting, refuses_bad_arguments)
{
    Memory memory(1);
    Reply segid = make(memory.at(), Page);
    EXPECT_EQ(get(0), fails(EINVAL));
    EXPECT_EQ(get(-1), fails(EINVAL));
    EXPECT_EQ(get(segid.result, XPMEM_RDONLY | XPMEM_RDWR), fails(EINVAL));
    EXPECT_EQ(get(segid.result, 9999), fails(EINVAL));
    EXPECT_EQ(get(segid.result, 4), fails(EINVAL));
    EXPECT_EQ(get(segid.result, XPMEM_RDWR, 0), fails(EINVAL));
    EXPECT_EQ(get(segid.result, XPMEM_RDWR, 2), fails(EINVAL));
}

TEST_F(xpmem_getting, finds_no_unknown_segment)
{
    EXPECT_EQ(get(12345), fails(ENOENT));
    EXPECT_EQ(get(INT64_MAX), fails(ENOENT));
    EXPECT_EQ(get(getpid()), fails(ENOENT)); // a member that has none
    User owner;
    owner.share(1, 0);
    EXPECT_EQ(get(owner.segid + (1ll << 32)), fails(ENOENT));
    EXPECT_EQ(get(owner.segid | (1ll << 62)), fails(ENOENT)); // of another time
    EXPECT_EQ(get(owner.pid()), fails(ENOENT));
}

// As the module: a capability overrides the mode.
TEST_F(xpmem_getting, asks_the_mode_unless_privileged)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "needs root, to become another user";
    User owner, peer, stranger;
    EXPECT_EQ(owner.tell("become", 1234), gives(0));
    EXPECT_EQ(peer.tell("become", 1234), gives(0));
    EXPECT_EQ(stranger.tell("become", 4321), gives(0));
    long long memory = owner.tell("memory", Page, 1).result;
    auto make_with = [&](const char *mode) {
        return owner.tell("make", memory, Page, mode).result;
    };
    long long private_one = make_with("0600"), read_only = make_with("0400"),
              hidden = make_with("0000"), for_all = make_with("0606"),
              for_others = make_with("0004");
    EXPECT_GT(peer.tell("get", private_one, XPMEM_RDWR).result, 0);
    EXPECT_GT(peer.tell("get", read_only, XPMEM_RDONLY).result, 0);
    EXPECT_EQ(peer.tell("get", read_only, XPMEM_RDWR), fails(EACCES));
    EXPECT_EQ(peer.tell("get", hidden, XPMEM_RDONLY), fails(EACCES));
    EXPECT_EQ(peer.tell("get", for_others, XPMEM_RDONLY), fails(EACCES));
    EXPECT_EQ(stranger.tell("get", private_one, XPMEM_RDONLY), fails(EACCES));
    EXPECT_GT(stranger.tell("get", for_all, XPMEM_RDWR).result, 0);
    EXPECT_GT(stranger.tell("get", for_others, XPMEM_RDONLY).result, 0);
    EXPECT_EQ(stranger.tell("get", for_others, XPMEM_RDWR), fails(EACCES));
    EXPECT_GT(get(hidden).result, 0);
}

TEST_F(xpmem_releasing, gives_a_permit_back_once)
{
    User owner;
    owner.share(1, 0);
    Reply apid = get(owner.segid);
    EXPECT_EQ(release(apid.result), gives(0));
    EXPECT_EQ(release(apid.result), fails(ENOENT));
    EXPECT_EQ(attach(apid.result, 0, Page), fails(ENOENT));
}

TEST_F(xpmem_releasing, refuses_what_is_no_permit)
{
    EXPECT_EQ(release(0), fails(EINVAL));
    EXPECT_EQ(release(-7), fails(EINVAL));
    EXPECT_EQ(release(12345), fails(ENOENT));
    User owner;
    owner.share(1, 0);
    Reply apid = get(owner.segid);
    EXPECT_EQ(release(apid.result + (1ll << 32)), fails(ENOENT));
    EXPECT_EQ(release(apid.result), gives(0));
}

TEST_F(xpmem_releasing, is_the_holders)
{
    User owner, holder;
    owner.share(1, 0);
    long long apid = holder.tell("get", owner.segid, XPMEM_RDWR).result;
    EXPECT_EQ(release(apid), fails(EACCES));
    EXPECT_EQ(owner.tell("release", apid), fails(EACCES));
    EXPECT_EQ(holder.tell("release", apid), gives(0));
}

TEST_F(xpmem_releasing, leaves_other_permits_alone)
{
    User owner;
    owner.share(1, 42);
    Reply first = get(owner.segid), second = get(owner.segid);
    EXPECT_EQ(release(first.result), gives(0));
    EXPECT_EQ(attach(second.result, 0, Page).result, owner.memory);
    EXPECT_EQ(release(second.result), gives(0));
    EXPECT_EQ(probe_holds(), 0);
}
