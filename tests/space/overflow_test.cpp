// tests/space/overflow_test.cpp: what happens when a table of the space is full.
#include <sys/mman.h>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

using overflows = SpaceTest;

// A copy of the libc whose modification time changes is a new file to the space every time.
TEST_F(overflows, of_files_leave_tasks_as_they_are)
{
    probe_fill_files();
    EXPECT_EQ(as_task({program("patch_sites"), "many"}).status, 0);
    Footprint before = Footprint::now();
    for (int i = 0; i < 20 && !HasFailure(); i++)
        EXPECT_EQ(as_task({program("plain"), "malloc"}), exits("wrong 0\n"));
    EXPECT_GT(probe_overflows("files"), 0);
    expect_flat(before, 2, 2048); // a libc that is not interposed on would leave its heap behind
}

TEST_F(overflows, of_patch_sites_leave_them_to_the_kernel_and_the_heap_in_its_range)
{
    int wrong = -1, in_range = -1, heap = -1;
    Outcome outcome = as_task({program("patch_sites"), "many"});
    ASSERT_EQ(sscanf(outcome.output.c_str(), "wrong %d close %d heap %d", &wrong, &in_range, &heap),
              3)
        << outcome.output;
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(heap, 1);
    EXPECT_GT(in_range, 0);
    EXPECT_EQ(probe_overflows("patch sites"), 200 - in_range);
}

TEST_F(overflows, of_fixed_mappings_are_counted)
{
    // As many as a slot and what it spills into can hold, and some more.
    const uintptr_t most = 256 + 16384, count = most + 44;
    EXPECT_EQ(as_task({program("patch_sites"), "fixed", std::to_string(count)}),
              exits("mapped " + std::to_string(count) + "\n"));
    EXPECT_EQ(probe_overflows("mappings"), static_cast<int>(count - most));
    for (uintptr_t i = 0; i < count; i++)
        munmap(reinterpret_cast<void *>(UINT64_C(0x150000000000) + i * 16 * 65536), 65536);
}
