/* tests/arch/trampoline_test.cpp: patched code runs, and nothing but the result changes: not the
 * registers, not the red zone, not the flags where they count; also when a signal interrupts each
 * of its instructions. */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "registers.h"

extern "C" {
#include "arch/code/patch.h"
#include "arch/trampoline.h"
}

namespace
{

using Bytes = std::vector<unsigned char>;
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };
enum : uint64_t { CARRY = 1, PARITY = 4, ZERO = 64, SIGN = 128, TRAP = 256, OVERFLOW_BIT = 2048 };
constexpr uint64_t STATUS = CARRY | PARITY | ZERO | SIGN | OVERFLOW_BIT;

struct Seen {
    arch_patched_syscall call;
    long arguments[6];
    uint64_t registers[16];
    uintptr_t frame;
    unsigned calls;
} seen;

long handle_call(const arch_patched_syscall *call, const long arguments[6])
{
    seen.call = *call;
    std::memcpy(seen.arguments, arguments, sizeof(seen.arguments));
    seen.frame = (uintptr_t)__builtin_frame_address(0);
    seen.calls++;
    return -ENOTTY;
}

void handle_cpuid(const arch_cpuid *, uint64_t registers[16])
{
    std::memcpy(seen.registers, registers, sizeof(seen.registers));
    seen.frame = (uintptr_t)__builtin_frame_address(0);
    seen.calls++;
    for (unsigned i = RAX; i <= RBX; i++)
        registers[i] = 0x1000 + i;
}

/* A page of code, one of trampolines and one of data, as a task has them. */
class Trampolines : public testing::Test
{
  protected:
    static constexpr size_t PAGE = 4096;
    void SetUp() override
    {
        seen = {};
        base_ = (unsigned char *)mmap(nullptr, 3 * PAGE, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        arch_write_trampolines(base_ + PAGE, PAGE);
        static const arch_handlers handlers = {handle_call, handle_cpuid, nullptr};
        arch_init_trampoline_data(&data(), (void *)0x5e1f, &handlers);
    }
    void TearDown() override
    {
        munmap(base_, 3 * PAGE);
    }

    arch_trampoline_data &data()
    {
        return *(arch_trampoline_data *)(base_ + 2 * PAGE);
    }
    uintptr_t trampolines() const
    {
        return (uintptr_t)base_ + PAGE;
    }

    /* Code that keeps rbx and rbp in both ends of its red zone while the patched code runs. */
    uintptr_t write_code(const Bytes &site)
    {
        const Bytes before = {0x48, 0x89, 0x5c, 0x24, 0xf8, 0x48, 0x89, 0x6c, 0x24, 0x80};
        const Bytes after = {0x48, 0x8b, 0x5c, 0x24, 0xf8, 0x48, 0x8b, 0x6c, 0x24, 0x80, 0xc3};
        unsigned char *at = base_;
        for (const Bytes &part : {before, site, after})
            at = std::copy(part.begin(), part.end(), at);
        std::fill(at, at + 32, (unsigned char)0x90);
        return (uintptr_t)base_ + before.size();
    }
    void seal()
    {
        ASSERT_EQ(mprotect(base_, 2 * PAGE, PROT_READ | PROT_EXEC), 0);
    }

    /* Patches a system call to trampoline `index`. */
    void prepare_call(const Bytes &site, unsigned index)
    {
        uintptr_t at = write_code(site);
        arch_patch_site found;
        ASSERT_EQ(arch_next_patch_site((unsigned char *)at, 64, 0, &found), 0u);
        data().calls[index] = {(void *)0x7a5c, found.nr, at + found.length, 1};
        ASSERT_EQ(arch_patch_syscall(at, &found, arch_syscall_trampoline(trampolines(), index)), 0);
        seal();
    }
    void prepare_cpuid(const Bytes &site, unsigned index)
    {
        uintptr_t at = write_code(site);
        ASSERT_EQ(arch_patch_cpuid(at, &data().cpuids[index],
                                   arch_cpuid_trampoline(trampolines(), index)),
                  0);
        seal();
    }
    registers run(uint64_t flags = 0)
    {
        registers state = {};
        for (unsigned i = 0; i < 16; i++)
            state.general[i] = 0x0101010101010101 * (i + 1);
        state.flags = 0x202 | flags;
        state.code = (uintptr_t)base_;
        before_ = state;
        run_with_registers(&state);
        return state;
    }
    /* All are as before but those named. */
    void expect_kept(const registers &after, const std::set<unsigned> &but)
    {
        for (unsigned i = 0; i < 16; i++)
            if (i != RSP && !but.count(i)) {
                EXPECT_EQ(after.general[i], before_.general[i]) << "register " << i;
            }
    }

    unsigned char *base_;
    registers before_;
};

const Bytes MMAP = {0xb8, 9, 0, 0, 0, 0x0f, 0x05};
/* mov $4, %eax; xor %ecx, %ecx; cpuid */
const Bytes CPUID = {0xb8, 4, 0, 0, 0, 0x31, 0xc9, 0x0f, 0xa2};
/* mov %r9d, %eax; mov %r8d, %ecx; cpuid: changes no flags */
const Bytes CPUID_OF_REGISTERS = {0x44, 0x89, 0xc8, 0x44, 0x89, 0xc1, 0x0f, 0xa2};

TEST_F(Trampolines, CallGivesArgumentsAndResult)
{
    for (unsigned index : {0u, 1u, (unsigned)ARCH_PATCHED_SYSCALLS_MAX - 1}) {
        SetUp();
        prepare_call(MMAP, index);
        registers after = run();
        EXPECT_EQ(seen.calls, 1u);
        EXPECT_EQ(seen.call.nr, 9);
        EXPECT_EQ(seen.call.self, (void *)0x7a5c);
        const unsigned order[] = {RDI, RSI, RDX, R10, R8, R9};
        for (unsigned i = 0; i < 6; i++)
            EXPECT_EQ((uint64_t)seen.arguments[i], before_.general[order[i]]) << i;
        EXPECT_EQ((long)after.general[RAX], -ENOTTY);
        EXPECT_EQ(seen.frame % 16, 0u);
        expect_kept(after, {RAX, RCX, R11});
    }
}

TEST_F(Trampolines, CallKeepsTheFlags)
{
    prepare_call(MMAP, 5);
    for (uint64_t flags :
         {(uint64_t)0, STATUS, CARRY | SIGN, ZERO | PARITY, (uint64_t)OVERFLOW_BIT}) {
        registers after = run(flags);
        EXPECT_EQ(after.flags & STATUS, flags & STATUS);
        EXPECT_EQ((long)after.general[RAX], -ENOTTY);
    }
}

TEST_F(Trampolines, CallRunsWhatStoodInBetween)
{
    /* mov $9, %eax; mov %r12, %rdi; mov %r9, %rsi; syscall */
    prepare_call({0xb8, 9, 0, 0, 0, 0x4c, 0x89, 0xe7, 0x4c, 0x89, 0xce, 0x0f, 0x05}, 3);
    registers after = run();
    EXPECT_EQ((uint64_t)seen.arguments[0], before_.general[12]);
    EXPECT_EQ((uint64_t)seen.arguments[1], before_.general[R9]);
    EXPECT_EQ((long)after.general[RAX], -ENOTTY);
    expect_kept(after, {RAX, RCX, R11, RDI, RSI});
}

TEST_F(Trampolines, CpuidGivesLeafAndResults)
{
    for (unsigned index : {0u, 1u, (unsigned)ARCH_CPUIDS_MAX - 1}) {
        SetUp();
        prepare_cpuid(CPUID, index);
        EXPECT_EQ(data().cpuids[index].leaf, 4u);
        EXPECT_EQ(data().cpuids[index].subleaf_register, ARCH_CPUID_ZERO);
        registers after = run();
        EXPECT_EQ(seen.calls, 1u);
        EXPECT_EQ(seen.registers[R11], before_.general[R11]);
        EXPECT_EQ(seen.registers[15], before_.general[15]);
        EXPECT_EQ(seen.frame % 16, 0u);
        for (unsigned i : {RAX, RCX, RDX})
            EXPECT_EQ(after.general[i], 0x1000u + i);
        expect_kept(after, {RAX, RCX, RDX});
    }
}

TEST_F(Trampolines, CpuidKeepsTheFlags)
{
    prepare_cpuid(CPUID_OF_REGISTERS, 2);
    EXPECT_EQ(data().cpuids[2].leaf_register, R9);
    EXPECT_EQ(data().cpuids[2].subleaf_register, R8);
    for (uint64_t flags :
         {(uint64_t)0, STATUS, CARRY | SIGN, ZERO | PARITY, (uint64_t)OVERFLOW_BIT})
        EXPECT_EQ(run(flags).flags & STATUS, flags & STATUS);
}

/* Where a debugger, or an unwinder, goes on from a handler. */
std::vector<uintptr_t> frames;
long unwind(const arch_patched_syscall *, const long *)
{
    frames.clear();
    _Unwind_Backtrace(
        [](_Unwind_Context *context, void *) {
            frames.push_back(_Unwind_GetIP(context));
            return frames.size() < 20 ? _URC_NO_REASON : _URC_END_OF_STACK;
        },
        nullptr);
    return 0;
}

TEST_F(Trampolines, CallIsUnwoundToWhatFollowsIt)
{
    data().handlers.call = unwind;
    prepare_call(MMAP, 4);
    run();
    EXPECT_EQ(std::count(frames.begin(), frames.end(), data().calls[4].resume), 1);
}

unsigned steps;

/* As a profiler's: looks at where it is, and uses the stack. */
void count_step(int, siginfo_t *, void *context)
{
    volatile unsigned char stack[512];
    std::memset((void *)stack, 0xa5, sizeof(stack));
    steps += ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != 0;
}

class SingleSteps : public Trampolines
{
  protected:
    void SetUp() override
    {
        Trampolines::SetUp();
        struct sigaction action = {};
        action.sa_sigaction = count_step;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &action, &old_);
        steps = 0;
    }
    void TearDown() override
    {
        sigaction(SIGTRAP, &old_, nullptr);
        Trampolines::TearDown();
    }
    struct sigaction old_;
};

TEST_F(SingleSteps, DisturbNoCall)
{
    prepare_call(MMAP, 5);
    registers after = run(TRAP);
    EXPECT_GT(steps, 30u);
    EXPECT_EQ((long)after.general[RAX], -ENOTTY);
    expect_kept(after, {RAX, RCX, R11});
}

TEST_F(SingleSteps, DisturbNoCpuid)
{
    prepare_cpuid(CPUID, 5);
    registers after = run(TRAP);
    EXPECT_GT(steps, 50u);
    expect_kept(after, {RAX, RCX, RDX});
    EXPECT_EQ(after.general[RCX], 0x1000u + RCX);
}

/* A shadow stack, checked at each step: each ret goes where a call came from. */
std::vector<uintptr_t> shadow;
unsigned unbalanced;
bool followed;

void check_return(int, siginfo_t *, void *context)
{
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    auto code = (const unsigned char *)registers[REG_RIP];
    auto stack = (const uintptr_t *)registers[REG_RSP];
    if (!followed)
        return;
    if (steps++ == 0)
        shadow.push_back(*stack); /* of the call that led here */
    /* Before the instruction runs: calls are e8, ff /2 perhaps behind a REX prefix; returns c3, c2.
     */
    const unsigned char *opcode =
        code + ((code[0] & 0xf0) == 0x40 || code[0] == 0xf3 || code[0] == 0xf2);
    if (opcode[0] == 0xc3 || opcode[0] == 0xc2) {
        unbalanced += shadow.empty() || *stack != shadow.back();
        if (!shadow.empty())
            shadow.pop_back();
        followed = !shadow.empty(); /* or it is back where the steps began */
    } else if (opcode[0] == 0xe8) {
        shadow.push_back((uintptr_t)opcode + 5);
    } else if (opcode[0] == 0xff && (opcode[1] >> 3 & 7) == 2) {
        unsigned mod = opcode[1] >> 6, rm = opcode[1] & 7;
        unsigned more = mod == 3 ? 0 : mod == 1 ? 1 : mod == 2 || rm == 5 ? 4 : 0;
        shadow.push_back((uintptr_t)opcode + 2 + more + (mod != 3 && rm == 4));
    }
}

class ShadowStack : public SingleSteps
{
  protected:
    void SetUp() override
    {
        SingleSteps::SetUp();
        struct sigaction action = {};
        action.sa_sigaction = check_return;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &action, nullptr);
        shadow.clear();
        shadow.reserve(100);
        unbalanced = 0;
        followed = true;
    }
};

TEST_F(ShadowStack, IsBalancedByCalls)
{
    prepare_call(MMAP, 7);
    run(TRAP);
    EXPECT_GT(steps, 30u);
    EXPECT_EQ(unbalanced, 0u);
}

TEST_F(ShadowStack, IsBalancedByCpuid)
{
    prepare_cpuid(CPUID, 7);
    run(TRAP);
    EXPECT_GT(steps, 50u);
    EXPECT_EQ(unbalanced, 0u);
}

/* Trampolines lie side by side in one page, and every one is its own record's. */
TEST_F(Trampolines, HaveAPlaceEach)
{
    std::set<uintptr_t> starts;
    for (unsigned i = 0; i < ARCH_PATCHED_SYSCALLS_MAX; i++)
        starts.insert(arch_syscall_trampoline(trampolines(), i));
    for (unsigned i = 0; i < ARCH_CPUIDS_MAX; i++)
        starts.insert(arch_cpuid_trampoline(trampolines(), i));
    starts.insert(arch_fault_trampoline(trampolines()));
    EXPECT_EQ(starts.size(), (size_t)ARCH_PATCHED_SYSCALLS_MAX + ARCH_CPUIDS_MAX + 1);
    EXPECT_GE(*starts.begin(), trampolines());
    EXPECT_LE(*starts.rbegin(), trampolines() + PAGE - 40);
}

/* The handler that the kernel starts: it passes the slot on, and the program's handler gets the
 * kernel's arguments. */
void *fault_slot;
uintptr_t fault_next;
uintptr_t handle_fault(int, void *, void *, void *slot)
{
    fault_slot = slot;
    return fault_next;
}
int handled_signal;
void handle_signal(int signal, siginfo_t *, void *)
{
    handled_signal = signal;
}

TEST_F(Trampolines, FaultGoesOnInTheProgramsHandler)
{
    data().handlers.fault = handle_fault;
    seal();
    auto entry = (void (*)(int, siginfo_t *, void *))arch_fault_trampoline(trampolines());
    fault_next = 0;
    handled_signal = 0;
    entry(SIGSEGV, nullptr, nullptr);
    EXPECT_EQ(fault_slot, (void *)0x5e1f);
    EXPECT_EQ(handled_signal, 0);
    fault_next = (uintptr_t)handle_signal;
    entry(SIGBUS, nullptr, nullptr);
    EXPECT_EQ(handled_signal, SIGBUS);
}

} // namespace
