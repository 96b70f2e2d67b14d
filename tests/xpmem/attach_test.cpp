// tests/xpmem/attach_test.cpp: attaching is address arithmetic.
#include "user.hpp"

using namespace fixture;

using xpmem_attaching = SpaceTest;
using xpmem_detaching = SpaceTest;

TEST_F(xpmem_attaching, gives_the_owners_address)
{
    User owner, other;
    owner.share(4, 42);
    long long apid = other.tell("get", owner.segid, XPMEM_RDWR).result;
    EXPECT_EQ(other.tell("attach", apid, 0, 4 * Page), gives(owner.memory));
    EXPECT_EQ(other.tell("attach", apid, 2 * Page, Page), gives(owner.memory + 2 * Page));
}

TEST_F(xpmem_attaching, lets_both_sides_see_what_the_other_writes)
{
    User owner, other;
    owner.share(2, 1);
    long long apid = other.tell("get", owner.segid, XPMEM_RDWR).result;
    long long at = other.tell("attach", apid, Page, Page).result;
    EXPECT_EQ(other.tell("read", at).result, 1);
    EXPECT_EQ(other.tell("write", at + 5, 77).result, 77);
    EXPECT_EQ(owner.tell("read", owner.memory + Page + 5).result, 77);
    EXPECT_EQ(owner.tell("write", owner.memory + Page, 78).result, 78);
    EXPECT_EQ(other.tell("read", at).result, 78);
    EXPECT_EQ(byte_at(reinterpret_cast<void *>(at)), 78);
}

TEST_F(xpmem_attaching, reaches_the_roots_memory)
{
    User user;
    Memory memory(2, 9);
    Reply segid = make(memory.at(), 2 * Page);
    long long apid = user.tell("get", segid.result, XPMEM_RDWR).result;
    EXPECT_EQ(user.tell("attach", apid, 0, 2 * Page).address(), memory.at());
    EXPECT_EQ(user.tell("read", reinterpret_cast<uintptr_t>(memory.at())).result, 9);
}

TEST_F(xpmem_attaching, rounds_the_size_up)
{
    User owner;
    owner.share(2, 0);
    Reply apid = get(owner.segid);
    EXPECT_EQ(attach(apid.result, 0, 1), gives(owner.memory));
    EXPECT_EQ(attach(apid.result, Page, 4000), gives(owner.memory + static_cast<long long>(Page)));
    EXPECT_EQ(attach(apid.result, Page, Page + 1), fails(EINVAL));
}

TEST_F(xpmem_attaching, refuses_what_is_not_in_the_segment)
{
    User owner;
    owner.share(2, 0);
    Reply apid = get(owner.segid);
    EXPECT_EQ(attach(apid.result, 12, Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, -static_cast<off_t>(Page), Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 0, 0), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 0, 3 * Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, Page, 2 * Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 2 * Page, Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 0, SIZE_MAX), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 0, SIZE_MAX - Page + 2), fails(EINVAL));
}

TEST_F(xpmem_attaching, at_an_address_takes_the_owners_alone)
{
    User owner;
    owner.share(2, 0);
    Reply apid = get(owner.segid);
    char *own = reinterpret_cast<char *>(owner.memory);
    EXPECT_EQ(attach(apid.result, Page, Page, own + Page).address(), own + Page);
    EXPECT_EQ(attach(apid.result, 0, Page, own + Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 0, Page, own + 1), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, 0, Page, reinterpret_cast<void *>(-Page)), fails(EINVAL));
}

TEST_F(xpmem_attaching, needs_a_permit_of_ones_own)
{
    User owner, holder;
    owner.share(1, 0);
    long long apid = holder.tell("get", owner.segid, XPMEM_RDWR).result;
    EXPECT_EQ(attach(apid, 0, Page), fails(EACCES));
    EXPECT_EQ(attach(0, 0, Page), fails(EINVAL));
    EXPECT_EQ(attach(-1, 0, Page), fails(EINVAL));
    EXPECT_EQ(attach(12345, 0, Page), fails(ENOENT));
    EXPECT_EQ(attach(owner.segid, 0, Page), fails(ENOENT)); // a segment is not a permit
    EXPECT_EQ(holder.tell("release", apid), gives(0));
    EXPECT_EQ(attach(apid, 0, Page), fails(ENOENT));
}

// As the module: a read-only permit can be had, but nothing be attached with it.
TEST_F(xpmem_attaching, needs_a_permit_for_writing)
{
    User owner;
    owner.share(1, 0);
    Reply apid = get(owner.segid, XPMEM_RDONLY);
    EXPECT_GT(apid.result, 0);
    EXPECT_EQ(attach(apid.result, 0, Page), fails(EACCES));
    EXPECT_EQ(attach(get(owner.segid, 0).result, 0, Page), gives(owner.memory));
}

TEST_F(xpmem_attaching, is_counted_for_the_statistics)
{
    User owner, other;
    owner.share(1, 0);
    long long apid = other.tell("get", owner.segid, XPMEM_RDWR).result;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(other.tell("attach", apid, 0, Page), gives(owner.memory));
    EXPECT_EQ(other.tell("attach", apid, 0, 0), fails(EINVAL));
    onespace_status status = {};
    other.close_input();
    EXPECT_EQ(other.wait(&status), 0);
    EXPECT_EQ(status.attaches, 3u);
}

TEST_F(xpmem_detaching, takes_any_address)
{
    User owner;
    owner.share(2, 42);
    Reply apid = get(owner.segid);
    char *at = static_cast<char *>(attach(apid.result, 0, 2 * Page).address());
    EXPECT_EQ(detach(at + Page + 17), gives(0));
    EXPECT_EQ(detach(at), gives(0));
    EXPECT_EQ(detach(reinterpret_cast<void *>(0x100000)), gives(0));
    EXPECT_EQ(detach(nullptr), gives(0));
    // The permit is still there.
    EXPECT_EQ(attach(apid.result, 0, Page).address(), at);
}
