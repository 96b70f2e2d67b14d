// tests/arch/aarch64/trampoline_test.cpp: patched code runs: arguments, result, registers, flags,
// unwinding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

extern "C" {
#include "arch/code/patch.h"
#include "arch/trampoline.h"

int patched_registers(const uint64_t before[32], uint64_t after[32]);
extern unsigned char patched_call[], patched_number[];
}

namespace
{

struct Seen {
    int calls;
    const arch_patched_syscall *call;
    long arguments[6];
    bool reaches_main; // of a backtrace
    long result;
} seen;

_Unwind_Reason_Code look_for_caller(_Unwind_Context *context, void *found)
{
    auto start = reinterpret_cast<uintptr_t>(
        _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(_Unwind_GetIP(context))));
    if (start == reinterpret_cast<uintptr_t>(patched_registers))
        *static_cast<bool *>(found) = true;
    return _URC_NO_REASON;
}

long on_call(const arch_patched_syscall *call, const long arguments[6])
{
    seen.calls++;
    seen.call = call;
    std::copy(arguments, arguments + 6, seen.arguments);
    _Unwind_Backtrace(look_for_caller, &seen.reaches_main);
    asm volatile("cmp %0, #1\n\tmovi v9.2d, #0" ::"r"(seen.calls + 5) : "cc"); // other flags
    return seen.result;
}

uintptr_t on_fault(int, void *, void *, void *)
{
    return 0;
}

// Trampolines and their data, of which both are in reach of this program's code.
class Trampolines
{
  public:
    Trampolines()
    {
        auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        auto place = (reinterpret_cast<uintptr_t>(patched_call) & -page) - (16 << 20);
        memory_ = mmap(reinterpret_cast<void *>(place), 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        EXPECT_NE(memory_, MAP_FAILED);
        size_ = 2 * page;
        auto bytes = static_cast<unsigned char *>(memory_);
        data = reinterpret_cast<arch_trampoline_data *>(bytes + page);
        arch_handlers handlers{};
        handlers.call = on_call;
        handlers.fault = on_fault;
        arch_init_trampoline_data(data, this, &handlers);
        arch_write_trampolines(bytes, static_cast<int32_t>(page));
        mprotect(memory_, page, PROT_READ | PROT_EXEC);
    }
    ~Trampolines()
    {
        munmap(memory_, size_);
    }
    uintptr_t page() const
    {
        return reinterpret_cast<uintptr_t>(memory_);
    }

    arch_trampoline_data *data;

  private:
    void *memory_;
    size_t size_;
};

void set_access(const void *at, int access)
{
    auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    auto start = reinterpret_cast<uintptr_t>(at) & -page;
    ASSERT_EQ(mprotect(reinterpret_cast<void *>(start), 2 * page, access), 0);
}

// Patches patched_call to the trampoline `index`, found with the number `nr`.
void patch(const Trampolines &trampolines, unsigned index, long nr, unsigned char scratch)
{
    auto address = reinterpret_cast<uintptr_t>(patched_call);
    arch_patch_site site{nr, ARCH_PATCH_SITE_BYTES, scratch};
    arch_patched_syscall *call = &trampolines.data->calls[index];
    call->self = nullptr;
    call->nr = nr;
    arch_set_resume(call, address, &site);
    set_access(patched_call, PROT_READ | PROT_WRITE | PROT_EXEC);
    ASSERT_EQ(
        arch_patch_syscall(address, &site, arch_syscall_trampoline(trampolines.page(), index)), 0);
    set_access(patched_call, PROT_READ | PROT_EXEC);
}

// Registers that patched_registers loads and stores; 16 and 17 it only loads.
bool is_checked(unsigned number)
{
    return number != 0 && number != 8 && (number < 16 || number > 20) && number != 29 &&
           number != 31;
}

struct Registers {
    uint64_t before[32], after[32];
    int flags;
};

Registers run_patched()
{
    Registers run{};
    for (unsigned i = 0; i < 32; i++)
        run.before[i] = 0x0101010101010101u * (i + 1);
    seen = {};
    seen.result = -12345;
    run.flags = patched_registers(run.before, run.after);
    return run;
}

TEST(Trampoline, calls_the_handler_and_keeps_registers_and_flags)
{
    Trampolines trampolines;
    unsigned index = 0;
    for (unsigned char scratch : {17, 16}) {
        for (unsigned trampoline : {0u, ARCH_PATCHED_SYSCALLS_MAX - 1u, 1u + index++}) {
            patch(trampolines, trampoline, SYS_getpid, scratch);
            Registers result = run_patched();
            ASSERT_EQ(seen.calls, 1);
            EXPECT_EQ(seen.call, &trampolines.data->calls[trampoline]);
            EXPECT_EQ(static_cast<long>(result.after[0]), -12345);
            EXPECT_EQ(result.flags, 1) << "the flags are those before the call";
            EXPECT_EQ(result.after[8], static_cast<uint64_t>(SYS_getpid));
            for (unsigned i = 0; i < 6; i++)
                EXPECT_EQ(static_cast<uint64_t>(seen.arguments[i]), result.before[i]) << i;
            for (unsigned i = 0; i < 32; i++)
                if (is_checked(i)) {
                    EXPECT_EQ(result.after[i], result.before[i]) << "x" << i;
                }
        }
    }
}

TEST(Trampoline, is_unwound_to_the_patched_function)
{
    Trampolines trampolines;
    patch(trampolines, 3, SYS_getpid, 17);
    run_patched();
    EXPECT_TRUE(seen.reaches_main);
}

// A branch may lead to the instruction with another number than the search has found.
TEST(Trampoline, leaves_another_number_to_the_kernel)
{
    Trampolines trampolines;
    patch(trampolines, 0, SYS_getppid, 17);
    Registers result = run_patched();
    EXPECT_EQ(seen.calls, 0);
    EXPECT_EQ(static_cast<long>(result.after[0]), getpid());
    EXPECT_EQ(result.flags, 1);
    for (unsigned i = 0; i < 32; i++)
        if (is_checked(i)) {
            EXPECT_EQ(result.after[i], result.before[i]) << "x" << i;
        }
}

TEST(Trampoline, data_page_may_lie_anywhere_in_reach)
{
    alignas(4096) static unsigned char bytes[ARCH_PAGE_MIN];
    for (int32_t distance : {-65536, -4096, 4096, 65536, 1 << 20, 64 << 20}) {
        arch_write_trampolines(bytes, distance);
        for (unsigned i = 0; i < ARCH_PATCHED_SYSCALLS_MAX; i++) {
            const unsigned char *at = bytes + i * ARCH_SYSCALL_TRAMPOLINE_BYTES;
            uint32_t adrp = instruction_at(at + 4), add = instruction_at(at + 12);
            int64_t pages = static_cast<int64_t>((adrp >> 29 & 3) | (adrp >> 5 & 0x7ffff) << 2);
            pages = pages << 43 >> 43;
            auto page = (reinterpret_cast<uintptr_t>(at) & -uintptr_t{4096}) +
                        static_cast<uintptr_t>(pages * 4096);
            uintptr_t record = page + (add >> 10 & 0xfff);
            EXPECT_EQ(record,
                      reinterpret_cast<uintptr_t>(bytes) + static_cast<uintptr_t>(distance) +
                          offsetof(arch_trampoline_data, calls) + i * sizeof(arch_patched_syscall));
            int64_t to_record;
            memcpy(&to_record, at + 24, sizeof(to_record));
            EXPECT_EQ(reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(to_record), record);
        }
    }
}

} // namespace
