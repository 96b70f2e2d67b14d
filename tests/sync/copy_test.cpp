// tests/sync/copy_test.cpp: onespace_copy is memmove, at each size and distance.
#include "onespace/sync/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace
{

constexpr std::size_t Room = 80000;

std::vector<unsigned char> pattern()
{
    std::vector<unsigned char> bytes(Room);
    unsigned value = 1;
    for (auto &byte : bytes)
        byte = static_cast<unsigned char>((value = value * 1103515245 + 12345) >> 16);
    return bytes;
}

void expect_as_memmove(std::size_t to, std::size_t from, std::size_t size)
{
    auto copied = pattern(), expected = copied;
    onespace_copy(copied.data() + to, copied.data() + from, size);
    std::memmove(expected.data() + to, expected.data() + from, size);
    EXPECT_EQ(copied, expected) << "to " << to << " from " << from << " size " << size;
}

} // namespace

TEST(copy, is_right_at_each_distance)
{
    for (std::size_t size : {0, 1, 64, 2047, 2048, 2049, 2111, 4095, 4096, 8000, 20001})
        for (std::size_t behind = 0; behind < 72; behind++)
            expect_as_memmove(40960 + behind, 5, size);
}

TEST(copy, of_what_overlaps_is_right_both_ways)
{
    for (std::size_t size : {2049, 8000, 20001})
        for (std::size_t behind : {1, 16, 31, 32, 4096 + 1, 4096 + 16, 8192 + 24}) {
            expect_as_memmove(behind, 0, size);
            expect_as_memmove(0, behind, size);
        }
}
