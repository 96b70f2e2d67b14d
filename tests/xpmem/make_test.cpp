// tests/xpmem/make_test.cpp: naming memory, and taking the name back.
#include "arch/constants.h"
#include "user.hpp"

using namespace fixture;

using xpmem_making = SpaceTest;
using xpmem_removing = SpaceTest;

TEST_F(xpmem_making, gives_positive_ids_with_the_process_id_below)
{
    User user;
    Memory memory(2);
    Reply own = make(memory.at(), 2 * Page);
    EXPECT_GT(own.result, 0);
    EXPECT_EQ(own.result & 0xffffffff, getpid());
    user.share(1, 0);
    EXPECT_EQ(user.segid & 0xffffffff, user.pid());
    EXPECT_EQ(user.pid(), user.tell("pid").result);
}

TEST_F(xpmem_making, of_the_same_memory_gives_another_id)
{
    Memory memory(1);
    EXPECT_NE(make(memory.at(), Page).result, make(memory.at(), Page).result);
}

TEST_F(xpmem_making, names_everything)
{
    Reply everything = make(nullptr, XPMEM_MAXADDR_SIZE);
    ASSERT_GT(everything.result, 0);
    Reply apid = get(everything.result);
    Memory memory(3, 7);
    Reply attached = attach(apid.result, reinterpret_cast<off_t>(memory.at(Page)), Page);
    EXPECT_EQ(attached.address(), memory.at(Page));
    // Up to the end of what a program can map, and not beyond.
    off_t end = ARCH_ADDRESS_END;
    EXPECT_EQ(attach(apid.result, end - Page, Page).result, end - Page);
    EXPECT_EQ(attach(apid.result, end - Page, 2 * Page), fails(EINVAL));
    EXPECT_EQ(attach(apid.result, end, Page), fails(EINVAL));
}

TEST_F(xpmem_making, does_not_look_at_what_is_mapped)
{
    char *unmapped;
    {
        Memory memory(1);
        unmapped = memory.at();
    }
    EXPECT_GT(make(unmapped, Page).result, 0);
}

TEST_F(xpmem_making, refuses_bad_permissions)
{
    Memory memory(1);
    EXPECT_EQ(make(memory.at(), Page, 0600, 0), fails(EINVAL));
    EXPECT_EQ(make(memory.at(), Page, 0600, 2), fails(EINVAL));
    EXPECT_EQ(make(memory.at(), Page, 01000), fails(EINVAL));
    EXPECT_EQ(make(memory.at(), Page, ~uintptr_t(0)), fails(EINVAL));
}

TEST_F(xpmem_making, refuses_bad_ranges)
{
    Memory memory(2);
    EXPECT_EQ(make(memory.at(), 0), fails(EINVAL));
    EXPECT_EQ(make(memory.at(12), Page), fails(EINVAL));
    EXPECT_EQ(make(memory.at(), Page + 12), fails(EINVAL));
    EXPECT_EQ(make(reinterpret_cast<void *>(-2), Page), fails(EINVAL));
    EXPECT_EQ(make(reinterpret_cast<void *>(-Page), Page), fails(EINVAL));
    EXPECT_EQ(make(reinterpret_cast<void *>(ARCH_ADDRESS_END), Page), fails(EINVAL));
    EXPECT_EQ(make(reinterpret_cast<void *>(ARCH_ADDRESS_END - Page), 2 * Page), fails(EINVAL));
    EXPECT_EQ(make(reinterpret_cast<void *>(Page), XPMEM_MAXADDR_SIZE), fails(EINVAL));
}

TEST_F(xpmem_removing, takes_the_name_back_once)
{
    Memory memory(1);
    Reply segid = make(memory.at(), Page);
    EXPECT_EQ(remove_segment(segid.result), gives(0));
    EXPECT_EQ(remove_segment(segid.result), fails(ENOENT));
    EXPECT_EQ(get(segid.result), fails(ENOENT));
}

TEST_F(xpmem_removing, refuses_what_is_no_segment)
{
    EXPECT_EQ(remove_segment(0), fails(EINVAL));
    EXPECT_EQ(remove_segment(-1), fails(EINVAL));
    EXPECT_EQ(remove_segment(12345), fails(ENOENT));
    EXPECT_EQ(remove_segment(INT64_MAX), fails(ENOENT));
    Memory memory(1);
    Reply segid = make(memory.at(), Page);
    EXPECT_EQ(remove_segment(segid.result + (1ll << 32)), fails(ENOENT)); // the entry behind
    EXPECT_EQ(remove_segment(segid.result), gives(0));
}

TEST_F(xpmem_removing, is_the_owners)
{
    User owner, other;
    owner.share(1, 0);
    EXPECT_EQ(remove_segment(owner.segid), fails(EACCES));
    EXPECT_EQ(other.tell("remove", owner.segid), fails(EACCES));
    EXPECT_EQ(owner.tell("remove", owner.segid), gives(0));
}

TEST_F(xpmem_removing, ends_attaching_but_not_what_is_attached)
{
    User owner;
    owner.share(2, 42);
    Reply apid = get(owner.segid);
    Reply attached = attach(apid.result, 0, Page);
    EXPECT_EQ(owner.tell("remove", owner.segid), gives(0));
    EXPECT_EQ(attach(apid.result, 0, Page), fails(ENOENT));
    EXPECT_EQ(byte_at(attached.address()), 42);
    EXPECT_EQ(release(apid.result), gives(0));
}
