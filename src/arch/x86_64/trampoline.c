/* src/arch/x86_64/trampoline.c: the page of trampolines and its data. */
#include "arch/trampoline.h"

#include <assert.h>

extern const char arch_syscall_entry[], arch_cpuid_entry[];

enum {
    CALL_BYTES = ARCH_SYSCALL_TRAMPOLINE_BYTES,
    CPUID_BYTES = 40,
    FAULT_AT = ARCH_PATCHED_SYSCALLS_MAX * CALL_BYTES,
    CPUIDS_AT = FAULT_AT + 64,
    GUARD_AT = CPUIDS_AT + ARCH_CPUIDS_MAX * CPUID_BYTES,
    GUARD_BYTES = 80,
};

static_assert(ARCH_DATA_BYTES == ARCH_PAGE &&
                  offsetof(struct arch_trampoline_data, handlers.call) ==
                      ARCH_DATA_SYSCALL_HANDLER &&
                  offsetof(struct arch_trampoline_data, handlers.cpuid) ==
                      ARCH_DATA_CPUID_HANDLER &&
                  offsetof(struct arch_patched_syscall, resume) == ARCH_SYSCALL_RESUME,
              "as trampoline.S has them");
static_assert(sizeof(struct arch_trampoline_data) <= ARCH_PAGE, "one page of data");
static_assert(GUARD_AT + GUARD_BYTES <= ARCH_PAGE, "one page of trampolines");

static unsigned char *put_bytes(unsigned char *at, const char *bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        *at++ = (unsigned char)bytes[i];
    return at;
}

/* The page of trampolines while it is filled. */
struct page {
    unsigned char *bytes;
    int32_t to_data; /* distance of the data page */
};

/* The distance from the end of an instruction, whose last four bytes go to `at`, to a field of the
 * data page. */
static unsigned char *put_distance(unsigned char *at, const struct page *page, size_t field)
{
    int32_t distance = (int32_t)((long)field + page->to_data - (at + 4 - page->bytes));
    for (unsigned i = 0; i < 4; i++)
        *at++ = (unsigned char)((uint32_t)distance >> (8 * i));
    return at;
}

static void put_fault_trampoline(unsigned char *at, const struct page *page)
{
    /* On entry rsp is 8 below a multiple of 16, as after a call. */
    at = put_bytes(at, "\x57\x56\x52", 3); /* push %rdi; push %rsi; push %rdx */
    at = put_bytes(at, "\x48\x8b\x0d", 3); /* mov self(%rip), %rcx */
    at = put_distance(at, page, offsetof(struct arch_trampoline_data, self));
    at = put_bytes(at, "\xff\x15", 2); /* call *handlers.fault(%rip) */
    at = put_distance(at, page, offsetof(struct arch_trampoline_data, handlers.fault));
    at = put_bytes(at, "\x5a\x5e\x5f", 3); /* pop %rdx; pop %rsi; pop %rdi */
    put_bytes(at, "\x48\x85\xc0\x74\x02\xff\xe0\xc3",
              8); /* test %rax,%rax; jz 1f; jmp *%rax; 1: ret */
}

/* Touches no memory before it has the right to. The handler's third argument survives in r8. */
static void put_guard_trampoline(unsigned char *at, const struct page *page)
{
    at = put_bytes(at, "\x49\x89\xd0\x31\xc9\x31\xd2\x31\xc0",
                   9); /* mov %rdx,%r8; xor %ecx,%ecx; xor %edx,%edx; xor %eax,%eax */
    at = put_bytes(at, "\x0f\x01\xef\x4c\x89\xc2", 6); /* wrpkru; mov %r8,%rdx */
    put_fault_trampoline(at, page);
}

/* cpuid may stand anywhere, so nothing but its four results may change: not the flags, not even the
 * red zone. The call and its return are a pair, as a shadow stack demands. */
static void put_cpuid_trampoline(unsigned char *at, const struct page *page, unsigned index)
{
    at = put_bytes(at, "\x48\x8d\x64\x24\x80", 5); /* lea -128(%rsp), %rsp */
    at = put_bytes(at, "\x41\x53\x4c\x8d\x1d", 5); /* push %r11; lea, %r11 */
    at = put_distance(at, page, offsetof(struct arch_trampoline_data, cpuids[index]));
    at = put_bytes(at, "\xff\x15", 2); /* call *cpuid_entry(%rip) */
    at = put_distance(at, page, offsetof(struct arch_trampoline_data, cpuid_entry));
    at = put_bytes(at, "\x41\x5b", 2); /* pop %r11 */
    at = put_bytes(at, "\x48\x8d\xa4\x24\x80\x00\x00\x00\xff\x25",
                   10); /* lea 128(%rsp), %rsp; jmp */
    put_distance(at, page, offsetof(struct arch_trampoline_data, cpuids[index].resume));
}

void arch_write_trampolines(unsigned char *bytes, int32_t distance)
{
    const struct page page = {bytes, distance};
    for (unsigned i = 0; i < ARCH_PATCHED_SYSCALLS_MAX; i++) {
        unsigned char *at = put_bytes(bytes + i * CALL_BYTES, "\x4c\x8d\x1d", 3); /* lea, %r11 */
        at = put_distance(at, &page, offsetof(struct arch_trampoline_data, calls[i]));
        at = put_bytes(at, "\xff\x25", 2); /* jmp *call_entry(%rip) */
        put_distance(at, &page, offsetof(struct arch_trampoline_data, call_entry));
    }
    put_fault_trampoline(bytes + FAULT_AT, &page);
    put_guard_trampoline(bytes + GUARD_AT, &page);
    for (unsigned i = 0; i < ARCH_CPUIDS_MAX; i++)
        put_cpuid_trampoline(bytes + CPUIDS_AT + i * CPUID_BYTES, &page, i);
}

void arch_init_trampoline_data(struct arch_trampoline_data *data, void *self,
                               const struct arch_handlers *handlers)
{
    /* Addresses in this copy of the library: it must be the root's. */
    data->call_entry = (uintptr_t)arch_syscall_entry;
    data->cpuid_entry = (uintptr_t)arch_cpuid_entry;
    data->self = self;
    data->handlers = *handlers;
}

uintptr_t arch_syscall_trampoline(uintptr_t trampolines, unsigned index)
{
    return trampolines + index * CALL_BYTES;
}

uintptr_t arch_fault_trampoline(uintptr_t trampolines)
{
    return trampolines + FAULT_AT;
}

uintptr_t arch_guard_trampoline(uintptr_t trampolines)
{
    return trampolines + GUARD_AT;
}

uintptr_t arch_cpuid_trampoline(uintptr_t trampolines, unsigned index)
{
    return trampolines + CPUIDS_AT + index * CPUID_BYTES;
}
