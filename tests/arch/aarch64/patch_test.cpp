// tests/arch/aarch64/patch_test.cpp: which instructions are patch sites, by which register they are
// resumed, and what is written.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

extern "C" {
#include "arch/code/patch.h"
}

namespace
{

constexpr uint32_t svc = INSTRUCTION_SVC, ret = 0xd65f03c0, nop = 0xd503201f;
constexpr uint32_t mov_x16_x1 = 0xaa0103f0, mov_x17_x1 = 0xaa0103f1, add_x2_x16 = 0x91000602;
constexpr uint32_t mov_x8_x1 = 0xaa0103e8, ldr_x8 = 0xf9400028, str_x8 = 0xf9000028;
constexpr uint32_t bl = 0x94000010, blr_x3 = 0xd63f0060, br_x3 = 0xd61f0060, brk = 0xd4200000;

constexpr uint32_t number(uint32_t nr, bool wide = true)
{
    return (wide ? 0xd2800008 : 0x52800008) | nr << 5;
}

constexpr uint32_t branch(int instructions)
{
    return 0x14000000 | (static_cast<uint32_t>(instructions) & 0x03ffffff);
}

constexpr uint32_t branch_if(int instructions)
{
    return 0x54000008 | (static_cast<uint32_t>(instructions) & 0x7ffff) << 5;
}

using Code = std::vector<uint32_t>;

const unsigned char *bytes(const Code &code)
{
    return reinterpret_cast<const unsigned char *>(code.data());
}

// The numbers of the patch sites, before any is struck out.
std::vector<long> numbers(const Code &code)
{
    std::vector<long> found;
    arch_patch_site site;
    size_t size = 4 * code.size();
    for (size_t at = arch_next_patch_site(bytes(code), size, 0, &site); at < size;
         at = arch_next_patch_site(bytes(code), size, at + 1, &site))
        found.push_back(site.nr);
    return found;
}

// 16, 17 or 0 for the patch site at the instruction `at`.
int scratch(const Code &code, uint32_t at)
{
    arch_span span{4 * at, ARCH_PATCH_SITE_BYTES, 0};
    arch_reject_unsafe(bytes(code), 4 * code.size(), &span, 1);
    EXPECT_EQ(span.length != 0, span.displaced != 0);
    return span.displaced;
}

using Numbers = std::vector<long>;

TEST(Patch, finds_calls_by_the_number_before)
{
    EXPECT_EQ(numbers({number(222), svc, ret}), Numbers{222});
    EXPECT_EQ(numbers({number(222, false), nop, nop, svc}), Numbers{222});
    EXPECT_EQ(numbers({number(222), svc, nop, number(215), svc}), (Numbers{222, 215}));
    EXPECT_EQ(numbers({number(222), str_x8, svc}), Numbers{222});
    EXPECT_EQ(numbers({number(222), branch_if(2), svc}), Numbers{222});
    EXPECT_EQ(numbers({number(222), svc, svc}), (Numbers{222, 222})); // the kernel keeps x8
}

TEST(Patch, does_not_find_other_numbers)
{
    EXPECT_EQ(numbers({svc}), Numbers{});
    EXPECT_EQ(numbers({number(222), mov_x8_x1, svc}), Numbers{});
    EXPECT_EQ(numbers({number(222), ldr_x8, svc}), Numbers{});
    for (uint32_t end : {ret, bl, blr_x3, br_x3, branch(2)})
        EXPECT_EQ(numbers({number(222), end, svc}), Numbers{}) << std::hex << end;
    EXPECT_EQ(numbers({number(222), 0xd4000021 /* svc #1 */}), Numbers{});
    Code far{number(222)};
    far.insert(far.end(), 30, nop);
    far.push_back(svc);
    EXPECT_EQ(numbers(far), Numbers{});
}

TEST(Patch, reads_no_byte_beyond_the_code)
{
    Code code{number(222), svc};
    arch_patch_site site;
    for (size_t size = 0; size < 8; size++)
        EXPECT_EQ(arch_next_patch_site(bytes(code), size, 0, &site), size);
    EXPECT_EQ(arch_next_patch_site(bytes(code), 8, 0, &site), 4u);
    EXPECT_EQ(arch_next_patch_site(bytes(code), 8, 5, &site), 8u);
}

TEST(Patch, resumes_by_a_register_that_is_not_needed)
{
    EXPECT_EQ(scratch({svc, ret}, 0), 17);
    EXPECT_EQ(scratch({svc, mov_x17_x1, ret}, 0), 16);
    EXPECT_EQ(scratch({svc, mov_x17_x1, mov_x16_x1, ret}, 0), 0);
    EXPECT_EQ(scratch({svc, nop, bl, mov_x16_x1, mov_x17_x1}, 0), 17); // lost in the call anyway
    EXPECT_EQ(scratch({svc, blr_x3}, 0), 17);
    EXPECT_EQ(scratch({svc, 0xd63f0220 /* blr x17 */}, 0), 16);
    EXPECT_EQ(scratch({svc, add_x2_x16, ret}, 0), 17);
    EXPECT_EQ(scratch({svc, 0x48307c02 /* casp x16, x17, x2, x3, [x0] */, ret}, 0), 0);
    EXPECT_EQ(scratch({svc, svc, brk}, 0), 17);
    EXPECT_EQ(scratch({svc, br_x3}, 0), 0) << "perhaps a table of this function's";
    EXPECT_EQ(scratch({svc, nop}, 0), 0) << "the code's end";
}

TEST(Patch, follows_all_paths)
{
    EXPECT_EQ(scratch({svc, branch_if(2), ret, mov_x17_x1, ret}, 0), 16);
    EXPECT_EQ(scratch({svc, branch_if(3), mov_x16_x1, ret, mov_x17_x1, ret}, 0), 0);
    EXPECT_EQ(scratch({mov_x17_x1, ret, svc, branch(-3)}, 2), 16);
    EXPECT_EQ(scratch({svc, branch(0)}, 0), 17) << "a loop";
    EXPECT_EQ(scratch({svc, branch(-2)}, 0), 0) << "out of the code";
    EXPECT_EQ(scratch({svc, 0xb4000041 /* cbz x1, +2 */, ret, mov_x17_x1, ret}, 0), 16);
    EXPECT_EQ(scratch({svc, 0x37000041 /* tbnz w1, #0, +2 */, ret, mov_x17_x1, ret}, 0), 16);
}

TEST(Patch, writes_a_branch)
{
    alignas(16) static uint32_t code[4];
    auto at = reinterpret_cast<uintptr_t>(code);
    arch_patch_site site{222, ARCH_PATCH_SITE_BYTES, 17};
    for (int64_t distance :
         {int64_t{4}, int64_t{-4}, int64_t{BRANCH_REACH} - 4, -int64_t{BRANCH_REACH}}) {
        ASSERT_EQ(arch_patch_syscall(at, &site, at + static_cast<uintptr_t>(distance)), 0)
            << distance;
        EXPECT_EQ(code[0] & 0xfc000000, 0x14000000u);
        EXPECT_EQ(instruction_distance(code[0], 0, 26), distance);
    }
    uint32_t before = code[0];
    for (int64_t distance : {int64_t{BRANCH_REACH}, -int64_t{BRANCH_REACH} - 4})
        EXPECT_EQ(arch_patch_syscall(at, &site, at + static_cast<uintptr_t>(distance)), -1);
    EXPECT_EQ(code[0], before);
}

} // namespace
