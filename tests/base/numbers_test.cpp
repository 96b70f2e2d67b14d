// tests/base/numbers_test.cpp: numbers in text, and those that name the entries of a directory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <unistd.h>

extern "C" {
#include "base/numbers.h"
}

namespace
{

std::string written(uint64_t number, unsigned base)
{
    char text[80];
    char *end = numbers_write(text, number, base);
    EXPECT_EQ(*end, 0);
    return {text, end};
}

void collect(void *context, int number, int)
{
    static_cast<std::set<int> *>(context)->insert(number);
}

} // namespace

TEST(numbers, are_written_in_decimal)
{
    EXPECT_EQ(written(0, 10), "0");
    EXPECT_EQ(written(10, 10), "10");
    EXPECT_EQ(written(UINT64_MAX, 10), "18446744073709551615");
}

TEST(numbers, are_written_in_hexadecimal)
{
    EXPECT_EQ(written(0, 16), "0x0");
    EXPECT_EQ(written(0xabc123, 16), "0xabc123");
    EXPECT_EQ(written(UINT64_MAX, 16), "0xffffffffffffffff");
}

TEST(numbers, name_every_open_descriptor)
{
    int high = fcntl(0, F_DUPFD_CLOEXEC, 300);
    ASSERT_GE(high, 300);
    std::set<int> found;
    ASSERT_EQ(numbers_each("/proc/self/fd", collect, &found), 0);
    EXPECT_TRUE(found.count(0) && found.count(1) && found.count(high));
    close(high);
}

TEST(numbers, that_name_many_entries_come_from_more_than_one_read)
{
    std::set<int> opened, found;
    for (int i = 0; i < 500; i++)
        opened.insert(dup(0));
    ASSERT_EQ(numbers_each("/proc/self/fd", collect, &found), 0);
    for (int fd : opened) {
        EXPECT_TRUE(found.count(fd)) << fd;
        close(fd);
    }
}

TEST(numbers, directory_that_is_not_there_is_an_error)
{
    std::set<int> found;
    EXPECT_EQ(numbers_each("/proc/self/none", collect, &found), -ENOENT);
    EXPECT_TRUE(found.empty());
}
