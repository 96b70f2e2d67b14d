// tests/base/text_test.cpp: strings without libc.
#include <gtest/gtest.h>

extern "C" {
#include "base/text.h"
}

TEST(text, length_is_that_without_the_zero)
{
    EXPECT_EQ(text_length(""), 0u);
    EXPECT_EQ(text_length("abc"), 3u);
}

TEST(text, after_a_prefix_is_the_rest)
{
    EXPECT_STREQ(text_after("/proc/self", "/proc/"), "self");
    EXPECT_STREQ(text_after("/proc/", "/proc/"), "");
    EXPECT_EQ(text_after("/pro", "/proc/"), nullptr);
    EXPECT_EQ(text_after("", "x"), nullptr);
    EXPECT_STREQ(text_after("x", ""), "x");
}

TEST(text, equal_means_every_byte)
{
    EXPECT_TRUE(text_equal("", ""));
    EXPECT_TRUE(text_equal("ab", "ab"));
    EXPECT_FALSE(text_equal("ab", "abc"));
    EXPECT_FALSE(text_equal("abc", "ab"));
}

TEST(text, file_name_follows_the_last_slash)
{
    EXPECT_STREQ(text_file_name("/usr/lib/libc.so.6"), "libc.so.6");
    EXPECT_STREQ(text_file_name("libc.so.6"), "libc.so.6");
    EXPECT_STREQ(text_file_name("/usr/lib/"), "");
}

TEST(text, append_returns_the_end)
{
    char text[16];
    char *end = text_append(text_append(text, "ab"), "cd");
    EXPECT_STREQ(text, "abcd");
    EXPECT_EQ(end, text + 4);
}

TEST(text, append_some_stops_at_the_limit)
{
    char text[16];
    EXPECT_EQ(text_append_some(text, "abcdef", 3), text + 3);
    EXPECT_STREQ(text, "abc");
    text_append_some(text, "ab", 3);
    EXPECT_STREQ(text, "ab");
}
