/* tests/interpose/patch_sites_test.cpp: which of the code's system calls become patch sites, by the
 * kind of code. */
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <vector>

#include "search.h"

namespace
{

using Bytes = std::vector<unsigned char>;

Bytes call(unsigned nr)
{
    return {0xb8, (unsigned char)nr, (unsigned char)(nr >> 8), 0, 0, 0x0f, 0x05, 0xc3};
}

/* The numbers found in code with one call of each of `numbers`. */
std::vector<long> found(const std::vector<unsigned> &numbers, search_kind kind)
{
    Bytes code(64, 0x90);
    for (unsigned nr : numbers)
        for (unsigned char byte : call(nr))
            code.push_back(byte);
    code.resize(code.size() + 64, 0x90);
    search_result results[SEARCH_MOST];
    unsigned count = search_code(code.data(), code.size(), kind, results);
    std::vector<long> result;
    for (unsigned i = 0; i < count; i++)
        result.push_back(results[i].nr);
    return result;
}

const std::vector<unsigned> SOME = {SYS_read, SYS_mmap, SYS_mprotect, SYS_openat,
                                    SYS_process_vm_readv};

TEST(PatchSites, AreThoseOfTheKindOfCode)
{
    EXPECT_EQ(found(SOME, SEARCH_LDSO), (std::vector<long>{SYS_mmap, SYS_mprotect, SYS_openat}));
    EXPECT_EQ(found(SOME, SEARCH_LIBC),
              (std::vector<long>{SYS_mmap, SYS_mprotect, SYS_openat, SYS_process_vm_readv}));
    EXPECT_EQ(found(SOME, SEARCH_PROGRAM), (std::vector<long>{SYS_mmap, SYS_mprotect, SYS_openat}));
}

TEST(PatchSites, AreNoMoreThanAFileHasRoomFor)
{
    std::vector<unsigned> many(SEARCH_MOST + 20, SYS_mmap);
    EXPECT_EQ(found(many, SEARCH_LIBC).size(), (size_t)SEARCH_MOST);
}

TEST(PatchSites, AreNotThoseThatABranchLeadsInto)
{
    Bytes code(300, 0x90);
    const Bytes shared = {0xb8, 0x95, 0, 0, 0, 0xeb, 0x05, 0xb8, 0x0b, 0, 0, 0, 0x0f, 0x05};
    code.insert(code.end(), shared.begin(), shared.end());
    for (unsigned char byte : call(SYS_mmap))
        code.push_back(byte);
    code.insert(code.end(), 300, 0x90);
    search_result results[SEARCH_MOST];
    ASSERT_EQ(search_code(code.data(), code.size(), SEARCH_LIBC, results), 1u);
    EXPECT_EQ(results[0].nr, SYS_mmap);
    EXPECT_EQ(results[0].at, 300 + shared.size());
}

TEST(PatchSites, OfCpuidAreThoseOfTheDynamicLinker)
{
    Bytes code(300, 0x90);
    for (unsigned char byte : {0xb8, 4, 0, 0, 0, 0x31, 0xc9, 0x0f, 0xa2})
        code.push_back(byte);
    code.insert(code.end(), 300, 0x90);
    search_result results[SEARCH_MOST];
    EXPECT_EQ(search_code(code.data(), code.size(), SEARCH_LIBC, results), 0u);
    ASSERT_EQ(search_code(code.data(), code.size(), SEARCH_LDSO, results), 1u);
    EXPECT_EQ(results[0].nr, SEARCH_CPUID);
    EXPECT_EQ(results[0].length, 9u);
}

} // namespace
