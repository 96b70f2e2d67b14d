/* src/arch/x86_64/steer_sites.c: find system call sites in machine code and turn them into jumps.
 *
 * Compilers and hand-written assembly load the number right before the instruction:
 *     b8 NN NN 00 00          mov $nr, %eax
 *     4c 89 e7                mov %r12, %rdi     (perhaps: one move between registers)
 *     bf 9c ff ff ff          mov $AT_FDCWD, %edi (in an openat of ld.so, behind the move)
 *     0f 05                   syscall
 * or, in Go, with the long form of the first move (48 c7 c0 NN NN 00 00). A five-byte relative jump
 * takes the place of the first instruction; moves in between go before the jump. Nothing jumps
 * to the later instructions of such a sequence, because the number would be missing. */
#include "arch.h"

#include <asm/unistd.h>
#include <assert.h>
#include <signal.h>
#include <ucontext.h>

#include "steer/steer.h"

extern const char arch_site_entry[], arch_cpuid_entry[], arch_guarded_copy_end[],
    arch_guarded_copy_failed[];
extern const char arch_guarded_copy_wide_failed[];

static int is_syscall(const unsigned char *at)
{
    return at[0] == 0x0f && at[1] == 0x05;
}

/* mov between two 64-bit registers: REX.W, opcode, mod 3. */
static int is_register_move(const unsigned char *at)
{
    return (at[0] & 0xf8) == 0x48 && (at[1] == 0x89 || at[1] == 0x8b) && at[2] >= 0xc0;
}

/* glibc's _exit loads both numbers first: mov $231 (exit_group), %esi; mov $60 (exit), %edx. It
 * never returns, so the whole may become one jump. */
static int match_exit(const unsigned char *at, struct arch_found_site *site)
{
    static const unsigned char exit_bytes[] = {0xbe, 231, 0, 0, 0, 0xba, 60, 0, 0, 0};
    for (unsigned i = 0; i < sizeof(exit_bytes); i++)
        if (at[i] != exit_bytes[i])
            return 0;
    *site = (struct arch_found_site){.nr = 231, .length = sizeof(exit_bytes)};
    return 1;
}

/* mov $AT_FDCWD, %edi */
static int is_cwd_load(const unsigned char *at)
{
    return at[0] == 0xbf && at[1] == 0x9c && at[2] == 0xff && at[3] == 0xff && at[4] == 0xff;
}

/* Up to fifteen bytes from `at` are readable. */
static int match_site(const unsigned char *at, struct arch_found_site *site)
{
    unsigned load = at[0] == 0xb8 ? 5 : at[0] == 0x48 && at[1] == 0xc7 && at[2] == 0xc0 ? 7 : 0;
    if (!load || at[load - 2] || at[load - 1])
        return 0;
    site->nr = at[load - 4] | at[load - 3] << 8;
    site->lead = load == 5 && is_register_move(at + load) ? 3 : 0;
    if (site->nr == __NR_openat && site->lead && is_cwd_load(at + load + site->lead))
        site->lead += 5;
    site->length = (unsigned char)(load + site->lead + 2);
    return is_syscall(at + load + site->lead);
}

size_t arch_next_site(const unsigned char *code, size_t size, size_t from,
                      struct arch_found_site *site)
{
    for (size_t at = from; at + ARCH_SITE_BYTES <= size; at++)
        if (match_site(code + at, site) || match_exit(code + at, site))
            return at;
    return size;
}

enum {
    STUB_BYTES = 16,
    CPUID_STUB_BYTES = 32,
    FAULT_STUB = ARCH_SITES_MAX * STUB_BYTES,
    CPUID_STUBS = FAULT_STUB + 64,
};

static_assert(sizeof(struct arch_stub_data) <= ARCH_PAGE, "one page of data");
static_assert(CPUID_STUBS + ARCH_CPUIDS_MAX * CPUID_STUB_BYTES <= ARCH_PAGE, "one page of stubs");

static unsigned char *put_bytes(unsigned char *at, const char *bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        *at++ = (unsigned char)bytes[i];
    return at;
}

/* The page of stubs while it is filled. */
struct stub_page {
    unsigned char *bytes;
    int32_t to_data; /* distance of the data page */
};

/* The distance from the end of an instruction, whose last four bytes go to `at`, to a field of the
 * data page. */
static unsigned char *put_distance(unsigned char *at, const struct stub_page *page, size_t field)
{
    int32_t distance = (int32_t)((long)field + page->to_data - (at + 4 - page->bytes));
    for (unsigned i = 0; i < 4; i++)
        *at++ = (unsigned char)((uint32_t)distance >> (8 * i));
    return at;
}

static void put_fault_stub(unsigned char *at, const struct stub_page *page)
{
    /* On entry rsp is 8 below a multiple of 16, as after a call. */
    at = put_bytes(at, "\x57\x56\x52", 3); /* push %rdi; push %rsi; push %rdx */
    at = put_bytes(at, "\x48\x8b\x0d", 3); /* mov self(%rip), %rcx */
    at = put_distance(at, page, offsetof(struct arch_stub_data, self));
    at = put_bytes(at, "\xff\x15", 2); /* call *fault_entry(%rip) */
    at = put_distance(at, page, offsetof(struct arch_stub_data, fault_entry));
    at = put_bytes(at, "\x5a\x5e\x5f", 3); /* pop %rdx; pop %rsi; pop %rdi */
    put_bytes(at, "\x48\x85\xc0\x74\x02\xff\xe0\xc3",
              8); /* test %rax,%rax; jz 1f; jmp *%rax; 1: ret */
}

/* cpuid may stand anywhere, so nothing but its four results may change: not even the red zone. */
static void put_cpuid_stub(unsigned char *at, const struct stub_page *page, unsigned index)
{
    at = put_bytes(at, "\x48\x8d\xa4\x24\x78\xff\xff\xff", 8); /* lea -136(%rsp), %rsp */
    at = put_bytes(at, "\x41\x53\x4c\x8d\x1d", 5);             /* push %r11; lea, %r11 */
    at = put_distance(at, page, offsetof(struct arch_stub_data, cpuids[index]));
    at = put_bytes(at, "\xff\x25", 2); /* jmp *cpuid_entry(%rip) */
    put_distance(at, page, offsetof(struct arch_stub_data, cpuid_entry));
}

void arch_write_stubs(unsigned char bytes[ARCH_PAGE], int32_t distance)
{
    const struct stub_page page = {bytes, distance};
    for (unsigned i = 0; i < ARCH_SITES_MAX; i++) {
        unsigned char *at = put_bytes(bytes + i * STUB_BYTES, "\x4c\x8d\x1d", 3); /* lea, %r11 */
        at = put_distance(at, &page, offsetof(struct arch_stub_data, sites[i]));
        at = put_bytes(at, "\xff\x25", 2); /* jmp *site_entry(%rip) */
        put_distance(at, &page, offsetof(struct arch_stub_data, site_entry));
    }
    put_fault_stub(bytes + FAULT_STUB, &page);
    for (unsigned i = 0; i < ARCH_CPUIDS_MAX; i++)
        put_cpuid_stub(bytes + CPUID_STUBS + i * CPUID_STUB_BYTES, &page, i);
}

void arch_init_stub_data(struct arch_stub_data *data, void *self)
{
    /* Addresses in this copy of the library: it must be the root's. */
    data->site_entry = (uintptr_t)arch_site_entry;
    data->fault_entry = (uintptr_t)steer_fault;
    data->cpuid_entry = (uintptr_t)arch_cpuid_entry;
    data->self = self;
}

uintptr_t arch_stub_address(uintptr_t stubs, unsigned index)
{
    return stubs + index * STUB_BYTES;
}

uintptr_t arch_fault_stub_address(uintptr_t stubs)
{
    return stubs + FAULT_STUB;
}

uintptr_t arch_cpuid_stub_address(uintptr_t stubs, unsigned index)
{
    return stubs + CPUID_STUBS + index * CPUID_STUB_BYTES;
}

int arch_patch_site(uintptr_t address, const struct arch_found_site *site, uintptr_t stub)
{
    volatile unsigned char *code = (volatile unsigned char *)address;
    unsigned char lead[ARCH_SITE_BYTES];
    for (unsigned i = 0; i < site->lead; i++)
        lead[i] = code[5 + i]; /* the jump may overlap them */
    if (arch_write_jump(address + site->lead, stub) != 0)
        return -1;
    for (unsigned i = 0; i < site->lead; i++)
        code[i] = lead[i];
    return 0;
}

int arch_fault_recover(void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    if (at < (uintptr_t)arch_guarded_copy || at >= (uintptr_t)arch_guarded_copy_end)
        return 0;
    registers[REG_RIP] =
        (greg_t)(uintptr_t)(at < (uintptr_t)arch_guarded_copy_wide ? arch_guarded_copy_failed
                                                                   : arch_guarded_copy_wide_failed);
    return 1;
}
