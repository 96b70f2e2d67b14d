// tests/storage/region/dirty_pages_test.cpp: which ranges were stored into.
#include <cerrno>
#include <cstring>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "region.hpp"

static const char refused[] = "this kernel has no PAGEMAP_SCAN (Linux 6.7) or forbids userfaultfd";

class changes : public Region
{
  protected:
    // Whether the kernel can. The caller skips: from here that would end this function only.
    [[nodiscard]] bool track(size_t length, uint64_t offset = 0)
    {
        map(mapped, offset, length);
        return storage_region_track(&mapped) == 0;
    }
    std::string look()
    {
        std::string text;
        EXPECT_EQ(storage_region_changes(&mapped, &found), 0);
        for (size_t i = 0; i < found.count; i++)
            text += std::to_string(found.range[i].offset) + "+" +
                    std::to_string(found.range[i].length) + " ";
        return text;
    }
    void TearDown() override
    {
        unmap(mapped);
        free(found.range);
        Region::TearDown();
    }
    storage_region mapped = {};
    storage_ranges found = {};
};

TEST_F(changes, are_the_pages_stored_into)
{
    if (!track(64 * Page))
        GTEST_SKIP() << refused;
    EXPECT_EQ(look(), "");
    mapped.base[0] = 1;
    mapped.base[7 * Page + 5] = 1;
    mapped.base[8 * Page] = 1;
    EXPECT_EQ(look(), "0+4096 28672+8192 ");
    EXPECT_EQ(look(), "");
    mapped.base[7 * Page] = 1;
    EXPECT_EQ(look(), "28672+4096 ");
    volatile char seen = mapped.base[30 * Page];
    (void)seen;
    EXPECT_EQ(look(), "") << "a load is not a change";
}

TEST_F(changes, survive_a_flush)
{
    if (!track(16 * Page))
        GTEST_SKIP() << refused;
    mapped.base[3 * Page] = 1;
    EXPECT_EQ(storage_region_flush(&mapped, mapped.file.fd, {0, 16 * Page}, &error), 0);
    EXPECT_EQ(look(), "12288+4096 ");
    mapped.base[3 * Page] = 2;
    EXPECT_EQ(look(), "12288+4096 ");
}

TEST_F(changes, include_what_system_calls_wrote)
{
    if (!track(16 * Page))
        GTEST_SKIP() << refused;
    int fd = open("/dev/zero", O_RDONLY);
    EXPECT_EQ(read(fd, mapped.base + 5 * Page, 10), 10);
    close(fd);
    EXPECT_EQ(look(), "20480+4096 ");
}

TEST_F(changes, count_from_the_first_byte_of_the_region)
{
    if (!track(3 * Page, 100))
        GTEST_SKIP() << refused;
    mapped.base[0] = 1;
    mapped.base[3 * Page - 1] = 1;
    EXPECT_EQ(look(), "0+3996 12188+100 ");
}

TEST_F(changes, of_many_ranges_are_all_named)
{
    if (!track(4000 * Page))
        GTEST_SKIP() << refused;
    for (size_t i = 0; i < 4000; i += 2)
        mapped.base[i * Page] = 1;
    look();
    EXPECT_EQ(found.count, 2000u);
    EXPECT_EQ(found.range[1999].offset, 3998 * Page);
}

// As a network library does that watches registered memory. A mapping has room for one userfaultfd.
TEST_F(changes, are_everything_where_another_library_watches)
{
    map(mapped, 0, 16 * Page);
    int fault = int(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
    uffdio_api api = {.api = UFFD_API, .features = 1u << 15 | 1u << 13, .ioctls = 0};
    uffdio_register range = {};
    range.range = {reinterpret_cast<uintptr_t>(mapped.mapping), mapped.mapping_length};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    if (fault < 0 || ioctl(fault, UFFDIO_API, &api) != 0)
        GTEST_SKIP() << refused;
    ASSERT_EQ(ioctl(fault, UFFDIO_REGISTER, &range), 0) << strerror(errno);
    EXPECT_EQ(storage_region_track(&mapped), -EBUSY);
    EXPECT_EQ(storage_region_changes(&mapped, &found), 1);
    close(fault);
    EXPECT_EQ(storage_region_track(&mapped), 0);
    EXPECT_EQ(look(), "");
}

TEST_F(changes, that_are_not_tracked_are_everything)
{
    map(mapped, 10, 5000);
    EXPECT_EQ(storage_region_changes(&mapped, &found), 1);
    ASSERT_EQ(found.count, 1u);
    EXPECT_EQ(found.range[0].offset, 0u);
    EXPECT_EQ(found.range[0].length, 5000u);
}
