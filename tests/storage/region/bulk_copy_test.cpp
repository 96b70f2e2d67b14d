// tests/storage/region/bulk_copy_test.cpp: large copies into a region and out of it.
#include <algorithm>
#include <climits>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "region.hpp"
#include "written.h"

class bulk : public Region, public testing::WithParamInterface<unsigned>
{
  protected:
    void map_with(uint64_t offset, size_t length, unsigned style)
    {
        open_file(mapped.file);
        ASSERT_EQ(storage_file_reserve(&mapped.file, {offset, length}, &error), 0) << error.text;
        ASSERT_EQ(storage_region_map(&mapped, offset, length, nullptr, style, &error), 0)
            << error.text;
    }
    void store(uint64_t offset, const std::vector<char> &data)
    {
        storage_region_store(&mapped, mapped.file.fd, offset, data.data(), data.size());
    }
    std::vector<char> load(uint64_t offset, size_t size)
    {
        std::vector<char> data(size);
        storage_region_load(&mapped, mapped.file.fd, offset, data.data(), size);
        return data;
    }
    static std::vector<char> pattern(size_t size, unsigned seed)
    {
        std::vector<char> data(size);
        for (size_t i = 0; i < size; i++)
            data[i] = static_cast<char>((i * 2654435761u + seed) >> 16);
        return data;
    }
    int flush()
    {
        return storage_region_flush(&mapped, mapped.file.fd, {0, mapped.length}, &error);
    }
    size_t pages_in_cache() const
    {
        std::vector<unsigned char> there(mapped.mapping_length / Page);
        EXPECT_EQ(mincore(mapped.mapping, mapped.mapping_length, there.data()), 0);
        size_t count = 0;
        for (unsigned char page : there)
            count += page & 1;
        return count;
    }
    // Bytes that a store of one byte makes dirty: the folio of the file and, if another process has
    // written it back meanwhile, the block with the inode, whose time changes. The least of several
    // counts: when the folio is written back between its fault and the store, the store faults
    // again.
    static constexpr long InodeBlock = Page;
    long dirtied_by_store_at(size_t offset)
    {
        long least = LONG_MAX;
        EXPECT_EQ(flush(), 0) << error.text;
        for (int tries = 0; tries < 3; tries++) {
            long before = written_bytes();
            EXPECT_GE(before, 0) << "this kernel does not count what a process writes";
            mapped.base[offset] = 1;
            EXPECT_EQ(flush(), 0) << error.text;
            least = std::min(least, written_bytes() - before);
        }
        return least;
    }
    void forget()
    {
        ASSERT_EQ(flush(), 0) << error.text;
        ASSERT_EQ(madvise(mapped.mapping, mapped.mapping_length, MADV_DONTNEED), 0);
        ASSERT_EQ(posix_fadvise(mapped.file.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    void TearDown() override
    {
        unmap(mapped);
        Region::TearDown();
    }
    storage_region mapped = {};
};

static const unsigned Styles[] = {0, STORAGE_RANDOM, STORAGE_SEQUENTIAL,
                                  STORAGE_WRITE_ONCE | STORAGE_READ_ONCE,
                                  STORAGE_SEQUENTIAL | STORAGE_WRITE_ONCE | STORAGE_READ_ONCE};
INSTANTIATE_TEST_SUITE_P(styles, bulk, testing::ValuesIn(Styles));

/* Compares the mapping, a load and the file with a copy in memory. */
TEST_P(bulk, stores_and_loads_are_copies)
{
    const size_t length = (7 << 20) + 12345;
    const uint64_t begin = 4096 * 3 + 17;
    map_with(begin, length, GetParam());
    std::vector<char> model(length);
    const struct {
        uint64_t offset;
        size_t size;
    } copies[] = {{0, length},        {5, 100000},
                  {1 << 20, 5 << 20}, {length - 70001, 70001},
                  {3 << 20, 1 << 16}, {(2 << 20) - 29, 4 << 20},
                  {777, 10},          {0, 0}};
    unsigned seed = 1;
    for (auto [offset, size] : copies) {
        std::vector<char> data = pattern(size, seed++);
        mapped.base[offset / 2] = 'm'; /* a store beside it */
        model[offset / 2] = 'm';
        store(offset, data);
        std::copy(data.begin(), data.end(), model.begin() + static_cast<long>(offset));
        EXPECT_EQ(memcmp(mapped.base, model.data(), length), 0) << offset << "+" << size;
        EXPECT_EQ(load(offset, size), data);
    }
    forget();
    EXPECT_EQ(load(3, length - 3), std::vector<char>(model.begin() + 3, model.end()));
    EXPECT_EQ(memcmp(mapped.base, model.data(), length), 0);
    std::vector<char> in_file(length);
    EXPECT_EQ(pread(mapped.file.fd, in_file.data(), length, begin), static_cast<ssize_t>(length));
    EXPECT_EQ(in_file, model);
}

/* A 64th of what was copied, but at least a page; always a page if the style says so. */
TEST_F(bulk, store_keeps_what_a_later_store_writes_small)
{
    const struct {
        unsigned style;
        size_t size, most;
    } cases[] = {{0, 1 << 20, 64 << 10},
                 {0, 7 << 20, 64 << 10},
                 {0, 16 << 20, 256 << 10},
                 {STORAGE_RANDOM, 16 << 20, 4 << 10}};
    for (auto [style, size, most] : cases) {
        map_with(0, size, style);
        store(0, pattern(size, 1));
        EXPECT_LE(dirtied_by_store_at(size / 2 + 7), static_cast<long>(most) + InodeBlock) << size;
        unmap(mapped);
        mapped = {};
        unlink(path().c_str());
    }
    map_with(0, Page, 0);
}

TEST_F(bulk, load_of_what_is_not_in_memory_keeps_pages_small)
{
    map_with(0, 8 << 20, 0);
    store(0, pattern(8 << 20, 1));
    forget();
    if (pages_in_cache())
        GTEST_SKIP() << "/var/tmp is memory";
    EXPECT_EQ(load(0, 8 << 20), pattern(8 << 20, 1));
    EXPECT_LE(dirtied_by_store_at((3 << 20) + 7), static_cast<long>(Page) + InodeBlock);
}

TEST_F(bulk, what_is_written_once_and_read_once_is_not_kept_in_memory)
{
    map_with(0, 8 << 20, STORAGE_WRITE_ONCE | STORAGE_READ_ONCE);
    int direct = open(path().c_str(), O_RDWR | O_DIRECT);
    if (direct < 0)
        GTEST_SKIP() << "this file system has no direct I/O";
    close(direct);
    store(0, pattern(8 << 20, 1));
    EXPECT_EQ(load(0, 8 << 20), pattern(8 << 20, 1));
    EXPECT_EQ(pages_in_cache(), 0u);
}

/* Long before the system would begin write-back (vm.dirty_expire_centisecs). */
TEST_F(bulk, what_is_written_once_is_on_its_way_at_once)
{
    const size_t size = 1 << 20;
    map_with(0, size, STORAGE_WRITE_ONCE);
    store(0, pattern(size, 1));
    struct {
        uint64_t cached, dirty, in_writeback, evicted, recently_evicted;
    } found = {};
    const struct {
        uint64_t offset, length;
    } range = {0, size};
    const long cachestat = 451; /* Linux 6.5; no C library of Debian 12 has it */
    if (syscall(cachestat, mapped.file.fd, &range, &found, 0) < 0)
        GTEST_SKIP() << "this kernel has no cachestat";
    EXPECT_EQ(found.cached, size / Page);
    struct statfs system = {};
    ASSERT_EQ(fstatfs(mapped.file.fd, &system), 0);
    if (system.f_type == TMPFS_MAGIC)
        GTEST_SKIP() << "/var/tmp is memory";
    // Not until it is there: a busy device takes its time.
    for (int tries = 0; tries < 2000 && found.dirty; tries++) {
        usleep(10000);
        ASSERT_EQ(syscall(cachestat, mapped.file.fd, &range, &found, 0), 0);
    }
    EXPECT_EQ(found.dirty, 0u);
}

/* To extend it would hide that data is lost. */
TEST_P(bulk, store_does_not_make_a_cut_file_whole)
{
    map_with(0, 8 << 20, GetParam());
    ASSERT_EQ(truncate(path().c_str(), Page), 0);
    store(4 << 20, pattern(4 << 20, 1));
    EXPECT_EQ(size_of(path()), static_cast<long>(Page));
    EXPECT_EQ(flush(), -EIO);
    store(4 << 20, pattern(4 << 20, 1));
    EXPECT_EQ(size_of(path()), static_cast<long>(Page)) << "it stays failed";
}

TEST_F(bulk, store_is_a_change)
{
    map_with(0, 1 << 20, 0);
    if (storage_region_track(&mapped) < 0)
        GTEST_SKIP() << "this kernel has no PAGEMAP_SCAN (Linux 6.7) or forbids userfaultfd";
    storage_ranges found = {};
    store(2 * Page, pattern(512 << 10, 1));
    EXPECT_EQ(storage_region_changes(&mapped, &found), 0);
    ASSERT_EQ(found.count, 1u);
    EXPECT_EQ(found.range[0].offset, 2 * Page);
    EXPECT_EQ(found.range[0].length, 512u << 10);
    free(found.range);
}

TEST_F(bulk, without_a_descriptor_is_a_copy)
{
    map_with(0, 1 << 20, 0);
    std::vector<char> data = pattern(1 << 20, 3), back(1 << 20);
    storage_region_store(&mapped, -1, 0, data.data(), data.size());
    storage_region_load(&mapped, -1, 0, back.data(), back.size());
    EXPECT_EQ(back, data);
    EXPECT_EQ(load(0, 1 << 20), data);
}

/* Otherwise no huge page can be mapped. */
TEST_F(bulk, sequential_regions_lie_in_huge_pages_as_in_the_file)
{
    for (uint64_t offset : {UINT64_C(0), UINT64_C(12288), UINT64_C(5) << 20}) {
        map_with(offset, 9 << 20, STORAGE_SEQUENTIAL);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped.base) % (2 << 20), offset % (2 << 20));
        mapped.base[0] = mapped.base[(9 << 20) - 1] = 1;
        unmap(mapped);
        mapped = {};
    }
    map_with(0, Page, STORAGE_SEQUENTIAL);
}

/* The first puts go by pwrite, later ones by stores; reading the file sees both. */
TEST_F(bulk, puts_into_one_place_again_and_again_are_all_there)
{
    constexpr size_t Size = 192 << 10;
    map_with(0, 1 << 20, 0);
    for (unsigned round = 0; round < 40; round++) {
        std::vector<char> data = pattern(Size, round), back(Size);
        store(4096, data);
        ASSERT_EQ(pread(mapped.file.fd, back.data(), Size, 4096), static_cast<ssize_t>(Size));
        EXPECT_EQ(back, data) << round;
        EXPECT_EQ(load(4096, Size), data) << round;
        if (round % 8 == 7) {
            ASSERT_EQ(flush(), 0);
        }
    }
}

TEST_F(bulk, a_place_is_used_often_until_it_rests)
{
    constexpr uint64_t Place = 5 << 20, Same = Place + 1000, Other = 9 << 20;
    int uses = 0;
    while (!storage_region_is_hot(&mapped, uses % 2 ? Same : Place) && uses < 100000)
        uses++;
    EXPECT_GE(uses, 4);
    EXPECT_LT(uses, 100000); // more than four only when this test was delayed
    EXPECT_EQ(storage_region_is_hot(&mapped, Other), 0);
    usleep(100000);
    EXPECT_EQ(storage_region_is_hot(&mapped, Place), 0);
}
