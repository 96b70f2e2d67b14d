// tests/api/owner_test.cpp: whose memory an address is.
#include <sys/mman.h>

#include "member.hpp"

using namespace fixture;

using owner = SpaceTest;

TEST_F(owner, knows_every_kind_of_a_tasks_memory)
{
    Member task, other;
    for (const char *what : {"heap", "large", "break", "stack", "static", "constant", "code",
                             "library", "thread-local", "mmap", "thread", "outside"}) {
        Answer place = task.tell("place", what);
        EXPECT_EQ(place.result, 0) << what;
        EXPECT_EQ(onespace_owner(place.address), task.id()) << what << ' ' << place.address;
        EXPECT_EQ(other.tell("owner", hex(place.address)).result, task.id()) << what;
        EXPECT_EQ(task.tell("owner", hex(place.address)).result, task.id()) << what;
    }
}

TEST_F(owner, knows_the_roots_memory)
{
    int here = 0;
    auto heap = std::make_unique<int>(0);
    static int global;
    for (void *place : {static_cast<void *>(&here), static_cast<void *>(heap.get()),
                        static_cast<void *>(&global), reinterpret_cast<void *>(&onespace_owner)})
        EXPECT_EQ(onespace_owner(place), ONESPACE_ROOT);
    Member task;
    EXPECT_EQ(task.tell("owner", hex(heap.get())).result, ONESPACE_ROOT);
}

TEST_F(owner, says_when_nothing_is_mapped)
{
    EXPECT_EQ(onespace_owner(nullptr), -ENOENT);
    EXPECT_EQ(onespace_owner(reinterpret_cast<void *>(UINT64_C(0x200000000000))), -ENOENT);
    EXPECT_EQ(onespace_owner(reinterpret_cast<void *>(UINT64_C(0xffff800000000000))), -ENOENT);
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(onespace_owner(page), ONESPACE_ROOT);
    munmap(page, 4096);
    EXPECT_EQ(onespace_owner(page), -ENOENT);
}

TEST_F(owner, forgets_ended_tasks)
{
    Member task;
    std::vector<void *> places;
    for (const char *what : {"heap", "stack", "static", "outside"})
        places.push_back(task.tell("place", what).address);
    EXPECT_EQ(task.finish().status, 0);
    for (void *place : places)
        EXPECT_TRUE(eventually([&] { return onespace_owner(place) == -ENOENT; }));
}
