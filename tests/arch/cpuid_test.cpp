/* tests/arch/cpuid_test.cpp: which bytes are a cpuid sequence. */
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "arch/code/patch.h"
}

namespace
{

using Bytes = std::vector<unsigned char>;

/* mov $4, %eax; xor %ecx, %ecx; cpuid */
const Bytes CPUID = {0xb8, 4, 0, 0, 0, 0x31, 0xc9, 0x0f, 0xa2};
/* mov %r9d, %eax; mov %r8d, %ecx; cpuid: changes no flags */
const Bytes CPUID_OF_REGISTERS = {0x44, 0x89, 0xc8, 0x44, 0x89, 0xc1, 0x0f, 0xa2};

/* The cpuid sequences that are found in `bytes`, between nops. */
std::vector<uint32_t> find_cpuids(const Bytes &bytes)
{
    Bytes code(400, 0x90);
    code.insert(code.end(), bytes.begin(), bytes.end());
    code.insert(code.end(), 400, 0x90);
    uint32_t offsets[8];
    unsigned count = arch_find_cpuids(code.data(), code.size(), offsets, 8);
    for (unsigned i = 0; i < count; i++)
        offsets[i] -= 400;
    return {offsets, offsets + count};
}

const std::vector<uint32_t> NONE, FIRST = {0};

TEST(Cpuid, IsFoundInItsForms)
{
    EXPECT_EQ(find_cpuids(CPUID), FIRST);
    EXPECT_EQ(find_cpuids(CPUID_OF_REGISTERS), FIRST);
    EXPECT_EQ(find_cpuids({0xb8, 1, 0, 0, 0, 0x0f, 0xa2}), FIRST);
    EXPECT_EQ(find_cpuids({0x44, 0x89, 0xc8, 0x0f, 0xa2}), FIRST);
    EXPECT_EQ(find_cpuids({0x89, 0xf8, 0x0f, 0xa2}), NONE); /* no room for a jump */
    EXPECT_EQ(find_cpuids({0xb8, 1, 0, 0, 0, 0x89, 0xc1, 0x0f, 0xa2}),
              NONE); /* subleaf of the leaf */
    EXPECT_EQ(find_cpuids({0xb8, 1, 0, 0, 0, 0x90, 0x0f, 0xa2}), NONE);
}

TEST(Cpuid, IsNotFoundInsideAnotherInstruction)
{
    EXPECT_EQ(find_cpuids({0x41, 0xb8, 7, 0, 0, 0, 0x31, 0xc9, 0x0f, 0xa2}),
              NONE);                                                          /* mov $7, %r8d */
    EXPECT_EQ(find_cpuids({0x41, 0x89, 0xc0, 0x31, 0xc9, 0x0f, 0xa2}), NONE); /* mov %eax, %r8d */
}

TEST(Cpuid, IsLeftAloneWhereABranchLeads)
{
    EXPECT_EQ(find_cpuids({0xeb, 0x05, 0xb8, 4, 0, 0, 0, 0x31, 0xc9, 0x0f, 0xa2}), NONE);
    EXPECT_EQ(find_cpuids({0xeb, 0x00, 0xb8, 4, 0, 0, 0, 0x31, 0xc9, 0x0f, 0xa2}),
              (std::vector<uint32_t>{2}));
}

TEST(Cpuid, IsFoundNoMoreThanAskedFor)
{
    Bytes many;
    for (unsigned i = 0; i < ARCH_CPUIDS_MAX + 10; i++)
        for (const Bytes &part :
             {CPUID, Bytes{0x89, 0x07, 0x48, 0x83, 0xc7, 0x04}}) /* store, go on */
            many.insert(many.end(), part.begin(), part.end());
    EXPECT_EQ(find_cpuids(many).size(), 8u);
    many.insert(many.end(), 16, 0x90);
    uint32_t offsets[200];
    EXPECT_EQ(arch_find_cpuids(many.data(), many.size(), offsets, 200), (unsigned)ARCH_CPUIDS_MAX);
}

TEST(Cpuid, IsNotPatchedWhereThereIsNone)
{
    Bytes code(32, 0x90);
    const Bytes before = code;
    arch_cpuid record = {};
    EXPECT_EQ(arch_patch_cpuid((uintptr_t)code.data(), &record, (uintptr_t)code.data()), -1);
    EXPECT_EQ(code, before);
    EXPECT_EQ(record.resume, 0u);
}

} // namespace
