// tests/base/hash_test.cpp: FNV-1a against published values, and headers of shared structures.
#include <gtest/gtest.h>

extern "C" {
#include "base/hash.h"
#include "base/shared_header.h"
}

TEST(hash, is_fnv_1a)
{
    // The test vectors of its authors, 64 bits.
    EXPECT_EQ(hash_text(HASH_SEED, ""), UINT64_C(0xcbf29ce484222325));
    EXPECT_EQ(hash_text(HASH_SEED, "a"), UINT64_C(0xaf63dc4c8601ec8c));
    EXPECT_EQ(hash_text(HASH_SEED, "foobar"), UINT64_C(0x85944171f73967e8));
}

TEST(hash, goes_on_where_it_ended)
{
    EXPECT_EQ(hash_text(hash_text(HASH_SEED, "foo"), "bar"), hash_text(HASH_SEED, "foobar"));
    EXPECT_EQ(hash_bytes(HASH_SEED, "foobar", 6), hash_text(HASH_SEED, "foobar"));
}

TEST(shared_header, matches_when_all_of_it_does)
{
    const shared_header own = {1, 2, 3, 4};
    shared_header other = own;
    EXPECT_TRUE(shared_header_matches(&other, &own));
    other.tag++;
    EXPECT_FALSE(shared_header_matches(&other, &own));
    other = own, other.size++;
    EXPECT_FALSE(shared_header_matches(&other, &own));
    other = own, other.magic++;
    EXPECT_FALSE(shared_header_matches(&other, &own));
}

TEST(shared_header, description_fits_and_has_the_tag)
{
    char text[SHARED_TEXT];
    const shared_header largest = {UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX};
    EXPECT_LT(shared_header_describe(text, &largest), text + SHARED_TEXT);
    EXPECT_STREQ(text, "ABI tag 0xffffffffffffffff");
}
