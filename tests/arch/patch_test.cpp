/* tests/arch/patch_test.cpp: which bytes are a patch site, and what becomes of them. */
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

extern "C" {
#include "arch/code/patch.h"
}

namespace
{

using Bytes = std::vector<unsigned char>;

/* Code that ends at a page that cannot be read. */
class Guarded
{
  public:
    explicit Guarded(const Bytes &bytes)
        : size_(bytes.size()), room_((bytes.size() + PAGE - 1) / PAGE * PAGE)
    {
        base_ = (unsigned char *)mmap(nullptr, room_ + PAGE, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(base_ + room_, PAGE, PROT_NONE);
        std::copy(bytes.begin(), bytes.end(), code());
    }
    ~Guarded()
    {
        munmap(base_, room_ + PAGE);
    }
    Guarded(const Guarded &) = delete;
    Guarded &operator=(const Guarded &) = delete;
    unsigned char *code() const
    {
        return base_ + room_ - size_;
    }
    size_t size() const
    {
        return size_;
    }

  private:
    static constexpr size_t PAGE = 4096;
    size_t size_, room_;
    unsigned char *base_;
};

Bytes operator+(Bytes left, const Bytes &right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

const Bytes NOPS(20, 0x90);
const Bytes SYSCALL = {0x0f, 0x05};
const Bytes LOAD_MMAP = {0xb8, 9, 0, 0, 0}; /* mov $9, %eax */

struct Found {
    size_t at;
    arch_patch_site site;
};

/* The candidates in `bytes`, which are followed by what cannot be read. */
std::vector<Found> find_all(const Bytes &bytes)
{
    Guarded code(bytes);
    std::vector<Found> all;
    Found found = {};
    for (size_t at = 0;
         (at = arch_next_patch_site(code.code(), code.size(), at, &found.site)) < code.size();
         at++) {
        found.at = at;
        all.push_back(found);
    }
    return all;
}

/* The one candidate that begins the bytes, with `displaced`; its length is all of them. */
void expect_patch_site(const Bytes &bytes, long nr, unsigned displaced)
{
    auto all = find_all(NOPS + bytes + NOPS);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].at, NOPS.size());
    EXPECT_EQ(all[0].site.nr, nr);
    EXPECT_EQ(all[0].site.length, bytes.size());
    EXPECT_EQ(all[0].site.displaced, displaced);
}

void expect_none(const Bytes &bytes)
{
    EXPECT_TRUE(find_all(NOPS + bytes + NOPS).empty());
}

TEST(PatchSite, IsNumberAndCall)
{
    expect_patch_site(LOAD_MMAP + SYSCALL, 9, 0);
    expect_patch_site(Bytes{0xb8, 0x36, 0x01, 0, 0} + SYSCALL, 0x136, 0);
}

TEST(PatchSite, IsTheLongFormOfGo)
{
    expect_patch_site(Bytes{0x48, 0xc7, 0xc0, 9, 0, 0, 0} + SYSCALL, 9, 0);
}

TEST(PatchSite, IsExitOfGlibc)
{
    expect_patch_site({0xbe, 231, 0, 0, 0, 0xba, 60, 0, 0, 0}, 231, 0);
}

TEST(PatchSite, IsExitOfLaterGlibc)
{
    const Bytes load = {0xba, 231, 0, 0, 0}, jump = {0xeb, 3}, call = {0x89, 0xd0, 0x0f, 0x05};
    auto all = find_all(NOPS + load + jump + Bytes{0x0f, 0x1f, 0xf4} + call + NOPS);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].at, NOPS.size());
    EXPECT_EQ(all[0].site.nr, 231);
    EXPECT_EQ(all[0].site.length, 5);
    expect_none(load + jump + Bytes{0x90, 0x90} + call); /* somewhere else */
    for (unsigned char distance : {0, 3, 100, 255})      /* and not beyond the end */
        EXPECT_TRUE(find_all(load + Bytes{0xeb, distance} + NOPS).empty());
}

TEST(PatchSite, HasMovesInBetween)
{
    const Bytes rdi = {0x4c, 0x89, 0xe7}, rsi = {0x48, 0x89, 0xee},
                edi = {0xbf, 0x9c, 0xff, 0xff, 0xff};
    expect_patch_site(LOAD_MMAP + rdi + SYSCALL, 9, 3);
    expect_patch_site(LOAD_MMAP + rdi + rsi + SYSCALL, 9, 6);                 /* munmap of musl */
    expect_patch_site(Bytes{0xb8, 1, 1, 0, 0} + rdi + edi + SYSCALL, 257, 8); /* openat in ld.so */
    expect_patch_site(LOAD_MMAP + Bytes{0x41, 0x83, 0xca, 0x40} + SYSCALL, 9,
                      4);                                             /* or $64, %r10d */
    expect_patch_site(LOAD_MMAP + Bytes{0x31, 0xff} + SYSCALL, 9, 2); /* xor %edi, %edi */
    expect_patch_site(LOAD_MMAP + Bytes{0x41, 0xba, 8, 0, 0, 0} + SYSCALL, 9,
                      6); /* mov $8, %r10d */
    expect_patch_site(LOAD_MMAP + Bytes{0x48, 0x8d, 0x35, 1, 2, 3, 4} + SYSCALL, 9,
                      7); /* lea 0x4030201(%rip), %rsi: fexecve of glibc 2.43 */
    expect_patch_site(LOAD_MMAP + Bytes{0x4c, 0x8d, 0x05, 0, 0, 0, 0} + SYSCALL, 9,
                      7); /* lea 0(%rip), %r8 */
}

TEST(PatchSite, IsRefusedWhenAMoveTouchesTheNumber)
{
    expect_none(LOAD_MMAP + Bytes{0x48, 0x89, 0xc7} + SYSCALL); /* mov %rax, %rdi */
    expect_none(LOAD_MMAP + Bytes{0x48, 0x89, 0xf8} + SYSCALL); /* mov %rdi, %rax */
    expect_none(LOAD_MMAP + Bytes{0x48, 0x8b, 0xc7} + SYSCALL);
    expect_none(LOAD_MMAP + Bytes{0x83, 0xc8, 0x01} + SYSCALL); /* or $1, %eax */
    expect_none(LOAD_MMAP + Bytes{0x31, 0xc7} + SYSCALL);       /* xor %eax, %edi */
}

TEST(PatchSite, KeepsRegistersThatOnlyLookLikeTheNumbers)
{
    expect_patch_site(LOAD_MMAP + Bytes{0x4c, 0x89, 0xc7} + SYSCALL, 9, 3); /* mov %r8, %rdi */
    expect_patch_site(LOAD_MMAP + Bytes{0x49, 0x89, 0xf8} + SYSCALL, 9, 3); /* mov %rdi, %r8 */
}

TEST(PatchSite, IsRefusedBehindOtherInstructions)
{
    expect_none(LOAD_MMAP + Bytes{0x48, 0x8b, 0x3f} + SYSCALL);             /* mov (%rdi), %rdi */
    expect_none(LOAD_MMAP + Bytes{0x48, 0x8d, 0x05, 0, 0, 0, 0} + SYSCALL); /* lea 0(%rip), %rax */
    expect_none(LOAD_MMAP + Bytes{0x48, 0x8d, 0x37} + SYSCALL);             /* lea (%rdi), %rsi */
    expect_none(LOAD_MMAP + Bytes{0x74, 0x00} + SYSCALL);                   /* je */
    expect_none(LOAD_MMAP + Bytes{0x57} + SYSCALL);                         /* push %rdi */
    expect_none(Bytes{0xb8, 9, 0, 1, 0} + SYSCALL);                         /* no number */
    expect_none(LOAD_MMAP + Bytes{0x0f, 0x34});                             /* sysenter */
    expect_none(LOAD_MMAP + Bytes{0x48, 0x89, 0xee, 0x48, 0x89, 0xee, 0x48, 0x89, 0xee} +
                SYSCALL); /* too long */
}

/* The thread that unmaps its own stack, and then exits, must not stand on it in a handler. */
TEST(PatchSite, IsNotTheUnmappingOfTheOwnStack)
{
    const Bytes unmap = Bytes{0xb8, 11, 0, 0, 0} + SYSCALL;
    expect_patch_site(unmap, 11, 0);
    const std::vector<Bytes> ends = {{0x31, 0xff, 0xb0, 60}, {0x48, 0x31, 0xff, 0xb8, 60, 0, 0, 0}};
    for (const Bytes &end : ends)
        for (const Found &found : find_all(NOPS + unmap + end + SYSCALL + NOPS))
            EXPECT_EQ(found.site.nr, 60);
}

TEST(PatchSite, IsFoundUpToTheEnd)
{
    const Bytes site = LOAD_MMAP + Bytes{0x4c, 0x89, 0xe7, 0xbf, 0x9c, 0xff, 0xff, 0xff} + SYSCALL;
    ASSERT_EQ(site.size(), (size_t)ARCH_PATCH_SITE_BYTES);
    for (size_t before = 0; before < 17; before++) {
        auto all = find_all(Bytes(before, 0x90) + site);
        ASSERT_EQ(all.size(), 1u) << before;
        EXPECT_EQ(all[0].at, before);
    }
}

/* Every beginning of a patch site is looked at, and nothing behind it. */
TEST(PatchSite, ThatIsCutOffIsNotReadBeyond)
{
    const Bytes whole = LOAD_MMAP + Bytes{0x4c, 0x89, 0xe7} + SYSCALL + NOPS;
    for (size_t size = 0; size < whole.size(); size++)
        for (const Found &found : find_all(Bytes(whole.begin(), whole.begin() + (long)size)))
            EXPECT_LE(found.at + found.site.length, size);
    for (unsigned first = 0; first < 256; first++)
        find_all(Bytes(23, (unsigned char)first));
}

TEST(PatchSite, IsFoundFromWhereTheSearchBegins)
{
    const Bytes bytes =
        NOPS + LOAD_MMAP + SYSCALL + NOPS + Bytes{0x48, 0xc7, 0xc0, 11, 0, 0, 0} + SYSCALL + NOPS;
    Guarded code(bytes);
    const size_t first = 20, second = 47;
    arch_patch_site site;
    for (size_t from = 0; from <= bytes.size(); from++) {
        size_t expected = from <= first ? first : from <= second ? second : bytes.size();
        EXPECT_EQ(arch_next_patch_site(code.code(), code.size(), from, &site), expected) << from;
    }
}

/* The bytes of a patch site whose trampoline is `distance` bytes from its start. */
Bytes patched(const Bytes &bytes, intptr_t distance, int expected = 0)
{
    Guarded code(bytes + NOPS);
    arch_patch_site site;
    EXPECT_EQ(arch_next_patch_site(code.code(), code.size(), 0, &site), 0u);
    auto address = (uintptr_t)code.code();
    EXPECT_EQ(arch_patch_syscall(address, &site, address + (uintptr_t)distance), expected);
    EXPECT_EQ(std::memcmp(code.code() + site.length, NOPS.data(), NOPS.size()), 0);
    return Bytes(code.code(), code.code() + site.length);
}

void expect_patched(const Bytes &bytes, intptr_t distance, const Bytes &expected)
{
    EXPECT_EQ(patched(bytes, distance), expected) << distance;
}

void expect_refused(const Bytes &bytes, intptr_t distance)
{
    EXPECT_EQ(patched(bytes, distance, -1), bytes) << distance;
}

TEST(PatchCall, BecomesAJump)
{
    expect_patched(LOAD_MMAP + SYSCALL, 0x1005, {0xe9, 0, 0x10, 0, 0, 0x0f, 0x05});
    expect_patched(LOAD_MMAP + SYSCALL, -11, {0xe9, 0xf0, 0xff, 0xff, 0xff, 0x0f, 0x05});
}

TEST(PatchCall, KeepsMovesBeforeTheJump)
{
    const Bytes rdi = {0x4c, 0x89, 0xe7}, edi = {0xbf, 0x9c, 0xff, 0xff, 0xff};
    const Bytes jump = {0xe9, 0, 1, 0, 0};
    expect_patched(LOAD_MMAP + rdi + SYSCALL, 0x108, rdi + jump + SYSCALL);
    expect_patched(LOAD_MMAP + rdi + edi + SYSCALL, 0x10d, rdi + edi + jump + SYSCALL);
    expect_patched(Bytes{0x48, 0xc7, 0xc0, 9, 0, 0, 0} + rdi + SYSCALL, 0x108,
                   rdi + jump + Bytes{0x89, 0xe7} + SYSCALL);
}

TEST(PatchCall, KeepsAddressesRelativeToAMovedInstruction)
{
    const Bytes jump = {0xe9, 0, 1, 0, 0};
    expect_patched(LOAD_MMAP + Bytes{0x48, 0x8d, 0x35, 0xfd, 0xff, 0, 0} + SYSCALL, 0x10c,
                   Bytes{0x48, 0x8d, 0x35, 2, 0, 1, 0} + jump + SYSCALL);
    expect_patched(LOAD_MMAP + Bytes{0x4c, 0x8d, 0x05, 0xfe, 0xff, 0xff, 0xff} + SYSCALL, 0x10c,
                   Bytes{0x4c, 0x8d, 0x05, 3, 0, 0, 0} + jump + SYSCALL);
}

TEST(PatchCall, IsRefusedOutOfReach)
{
    const Bytes call = LOAD_MMAP + SYSCALL;
    expect_patched(call, INT64_C(0x7fffffff) + 5, {0xe9, 0xff, 0xff, 0xff, 0x7f, 0x0f, 0x05});
    expect_patched(call, -INT64_C(0x80000000) + 5, {0xe9, 0, 0, 0, 0x80, 0x0f, 0x05});
    expect_refused(call, INT64_C(0x80000000) + 5);
    expect_refused(call, -INT64_C(0x80000001) + 5);
    expect_refused(LOAD_MMAP + Bytes{0x4c, 0x89, 0xe7} + SYSCALL, INT64_C(0x80000000) + 8);
}

/* Whether a place of `length` bytes at `at` may be replaced. */
bool is_kept(const Bytes &bytes, uint32_t at, unsigned char length)
{
    Guarded code(bytes);
    arch_span span = {at, length, 0};
    arch_reject_unsafe(code.code(), code.size(), &span, 1);
    return span.length != 0;
}

const Bytes PADDING(600, 0x90);

TEST(StrikeOut, KeepsWhatStandsAlone)
{
    EXPECT_TRUE(is_kept(PADDING + LOAD_MMAP + SYSCALL + PADDING, 600, 7));
    EXPECT_TRUE(is_kept(LOAD_MMAP + SYSCALL, 0, 7));
    EXPECT_TRUE(is_kept(Bytes(3, 0x90) + LOAD_MMAP + SYSCALL + Bytes(3, 0x90), 3, 7));
}

TEST(StrikeOut, RefusesTheMiddleOfAnInstruction)
{
    /* mov $9, %r8d; movabs $…, %rax */
    EXPECT_FALSE(is_kept(PADDING + Bytes{0x41} + LOAD_MMAP + SYSCALL + PADDING, 601, 7));
    EXPECT_FALSE(is_kept(PADDING + Bytes{0x48, 0xb8} + LOAD_MMAP + SYSCALL + PADDING, 602, 7));
}

/* Short branches from everywhere around to everywhere around. */
TEST(StrikeOut, RefusesWhereAShortBranchLeads)
{
    for (int from = -126; from < 130; from++) {
        if (from > -2 && from < 7)
            continue;
        for (int to = -3; to < 10; to++) {
            int distance = to - from - 2;
            if (distance < -128 || distance > 127)
                continue;
            for (unsigned char opcode : {0xeb, 0x74, 0xe2}) {
                Bytes bytes = PADDING + LOAD_MMAP + SYSCALL + PADDING;
                auto branch = bytes.begin() + 600 + from;
                branch[0] = opcode;
                branch[1] = (unsigned char)distance;
                EXPECT_EQ(is_kept(bytes, 600, 7), to <= 0 || to >= 7) << from << " to " << to;
            }
        }
    }
}

/* A branch with so many bytes of distance, from many places to everywhere around. */
static void expect_refused_where_it_leads(const Bytes &branch, size_t bytes_of_distance)
{
    const size_t site = 20000, length = branch.size() + bytes_of_distance;
    for (size_t from : {(size_t)0, (size_t)700, (size_t)39000, 40007 - length})
        for (int to = -2; to < 10; to++) {
            Bytes bytes = Bytes(site, 0x90) + LOAD_MMAP + SYSCALL + Bytes(20000, 0x90);
            auto distance = (int32_t)((long)site + to - (long)(from + length));
            std::memcpy(&bytes[from], branch.data(), branch.size());
            std::memcpy(&bytes[from + branch.size()], &distance, bytes_of_distance);
            EXPECT_EQ(is_kept(bytes, site, 7), to <= 0 || to >= 7) << from << " to " << to;
        }
}

TEST(StrikeOut, RefusesWhereALongBranchLeads)
{
    const std::vector<Bytes> branches = {
        {0xe9}, {0xe8}, {0x0f, 0x84}, {0xf2, 0xe9}, {0x2e, 0x0f, 0x8f}, {0xc7, 0xf8}};
    for (const Bytes &branch : branches)
        expect_refused_where_it_leads(branch, 4);
}

/* An xbegin with an operand size prefix. */
TEST(StrikeOut, RefusesWhereABranchOf16BitsLeads)
{
    expect_refused_where_it_leads({0x66, 0xc7, 0xf8}, 2);
}

/* Bytes of an immediate that look like a branch are none. */
TEST(StrikeOut, KeepsWhereNoRealBranchLeads)
{
    Bytes code = PADDING + LOAD_MMAP + SYSCALL + PADDING;
    const Bytes hidden = {0xb9, 0xeb, 0x03, 0, 0}; /* mov $0x3eb, %ecx */
    std::copy(hidden.begin(), hidden.end(), code.begin() + 596 - 4);
    EXPECT_TRUE(is_kept(code, 600, 7));
    Bytes far = PADDING + LOAD_MMAP + SYSCALL + PADDING;
    const Bytes movabs = {0x48, 0xb9, 0xe9, 0, 0, 0, 0, 0, 0, 0}; /* of 0x…e9, to 602 */
    std::copy(movabs.begin(), movabs.end(), far.begin() + 300);
    int32_t distance = 602 - 307;
    std::memcpy(&far[303], &distance, 4);
    EXPECT_TRUE(is_kept(far, 600, 7));
}

/* clang -O2 of a function that calls with one of two numbers. */
TEST(StrikeOut, RefusesACallSharedByTwoNumbers)
{
    const Bytes shared = {0xb8, 0x95, 0,    0, 0, /* mov $149 (mlock), %eax */
                          0xeb, 0x05,             /* jmp 1f */
                          0xb8, 0x0b, 0,    0, 0, /* mov $11 (munmap), %eax */
                          0x48, 0x89, 0xd6,       /* 1: mov %rdx, %rsi */
                          0x0f, 0x05};            /* syscall */
    EXPECT_FALSE(is_kept(PADDING + shared + PADDING, 607, 10));
}

TEST(StrikeOut, JudgesEachPlaceForItself)
{
    Bytes bytes = PADDING + LOAD_MMAP + SYSCALL + Bytes{0xeb, 0x05} + LOAD_MMAP + SYSCALL + PADDING;
    arch_span spans[] = {{600, 7, 0}, {609, 7, 0}};
    Guarded code(bytes);
    arch_reject_unsafe(code.code(), code.size(), spans, 2);
    EXPECT_EQ(spans[0].length, 7);
    EXPECT_EQ(spans[1].length, 0);
}

} // namespace
