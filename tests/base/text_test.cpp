// tests/base/text_test.cpp: strings and the numbers in them, without libc.
#include <gtest/gtest.h>
#include <string>

extern "C" {
#include "base/text.h"
}

namespace
{

std::string written(uint64_t number, unsigned base)
{
    char text[80];
    char *end = text_append_number(text, number, base);
    EXPECT_EQ(*end, 0);
    return {text, end};
}

} // namespace

TEST(text, length_is_that_without_the_zero)
{
    EXPECT_EQ(text_length(""), 0u);
    EXPECT_EQ(text_length("abc"), 3u);
}

TEST(text, skip_prefix_returns_the_rest)
{
    EXPECT_STREQ(text_skip_prefix("/proc/self", "/proc/"), "self");
    EXPECT_STREQ(text_skip_prefix("/proc/", "/proc/"), "");
    EXPECT_EQ(text_skip_prefix("/pro", "/proc/"), nullptr);
    EXPECT_EQ(text_skip_prefix("", "x"), nullptr);
    EXPECT_STREQ(text_skip_prefix("x", ""), "x");
}

TEST(text, equal_means_every_byte)
{
    EXPECT_TRUE(text_equal("", ""));
    EXPECT_TRUE(text_equal("ab", "ab"));
    EXPECT_FALSE(text_equal("ab", "abc"));
    EXPECT_FALSE(text_equal("abc", "ab"));
}

TEST(text, basename_follows_the_last_slash)
{
    EXPECT_STREQ(text_basename("/usr/lib/libc.so.6"), "libc.so.6");
    EXPECT_STREQ(text_basename("libc.so.6"), "libc.so.6");
    EXPECT_STREQ(text_basename("/usr/lib/"), "");
}

TEST(text, append_returns_the_end)
{
    char text[16];
    char *end = text_append(text_append(text, "ab"), "cd");
    EXPECT_STREQ(text, "abcd");
    EXPECT_EQ(end, text + 4);
}

TEST(text, append_max_stops_at_the_limit)
{
    char text[16];
    EXPECT_EQ(text_append_max(text, "abcdef", 3), text + 3);
    EXPECT_STREQ(text, "abc");
    text_append_max(text, "ab", 3);
    EXPECT_STREQ(text, "ab");
}

TEST(text, number_is_written_in_decimal)
{
    EXPECT_EQ(written(0, 10), "0");
    EXPECT_EQ(written(10, 10), "10");
    EXPECT_EQ(written(UINT64_MAX, 10), "18446744073709551615");
}

TEST(text, number_is_written_in_hexadecimal)
{
    EXPECT_EQ(written(0, 16), "0x0");
    EXPECT_EQ(written(0xabc123, 16), "0xabc123");
    EXPECT_EQ(written(UINT64_MAX, 16), "0xffffffffffffffff");
}

TEST(text, number_ends_at_the_first_other_character)
{
    uint64_t number;
    EXPECT_STREQ(text_read_number("120 kB", &number), " kB");
    EXPECT_EQ(number, 120u);
    EXPECT_STREQ(text_read_number("x", &number), "x");
    EXPECT_STREQ(text_read_hex("7f00abcdef-8", &number), "-8");
    EXPECT_EQ(number, UINT64_C(0x7f00abcdef));
}
