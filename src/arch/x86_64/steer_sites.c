/* src/arch/x86_64/steer_sites.c: find system call sites in machine code and turn them into jumps.
 *
 * Compilers and hand-written libc assembly load the number right before the instruction:
 *     b8 NN NN 00 00    mov $nr, %eax
 *     0f 05             syscall
 * Seven bytes, of which a five-byte relative jump takes the first. Nothing jumps to the second
 * instruction of such a pair, because the number would be missing. */
#include "arch.h"

#include <assert.h>
#include <signal.h>
#include <ucontext.h>

#include "steer/steer.h"

extern const char arch_site_entry[], arch_guarded_copy_end[], arch_guarded_copy_failed[];

size_t arch_next_site(const unsigned char *code, size_t size, size_t from, long *nr)
{
    for (size_t at = from; at + ARCH_SITE_BYTES <= size; at++) {
        const unsigned char *byte = code + at;
        if (byte[0] == 0xb8 && byte[5] == 0x0f && byte[6] == 0x05 && byte[3] == 0 && byte[4] == 0) {
            *nr = byte[1] | byte[2] << 8;
            return at;
        }
    }
    return size;
}

enum { STUB_BYTES = 16, FAULT_STUB = ARCH_SITES_MAX * STUB_BYTES };

static_assert(sizeof(struct arch_stub_data) <= ARCH_PAGE, "one page of data");
static_assert(FAULT_STUB + 64 <= ARCH_PAGE, "one page of stubs");

static unsigned char *put_bytes(unsigned char *at, const char *bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        *at++ = (unsigned char)bytes[i];
    return at;
}

/* The distance from the end of an instruction, whose last four bytes go to `at`, to a field of the
 * data page, which lies one page before `page`. */
static unsigned char *put_distance(unsigned char *at, const unsigned char *page, size_t field)
{
    int32_t distance = (int32_t)((long)field - ARCH_PAGE - (at + 4 - page));
    for (unsigned i = 0; i < 4; i++)
        *at++ = (unsigned char)((uint32_t)distance >> (8 * i));
    return at;
}

static void put_fault_stub(unsigned char *at, const unsigned char *page)
{
    /* On entry rsp is 8 below a multiple of 16, as after a call. */
    at = put_bytes(at, "\x57\x56\x52", 3);                /* push %rdi; push %rsi; push %rdx */
    at = put_bytes(at, "\x48\x8b\x0d", 3);                /* mov self(%rip), %rcx */
    at = put_distance(at, page, offsetof(struct arch_stub_data, self));
    at = put_bytes(at, "\xff\x15", 2);                     /* call *fault_entry(%rip) */
    at = put_distance(at, page, offsetof(struct arch_stub_data, fault_entry));
    at = put_bytes(at, "\x5a\x5e\x5f", 3);                /* pop %rdx; pop %rsi; pop %rdi */
    put_bytes(at, "\x48\x85\xc0\x74\x02\xff\xe0\xc3", 8); /* test %rax,%rax; jz 1f; jmp *%rax; 1: ret */
}

void arch_write_stubs(unsigned char page[ARCH_PAGE])
{
    for (unsigned i = 0; i < ARCH_SITES_MAX; i++) {
        unsigned char *at = put_bytes(page + i * STUB_BYTES, "\x4c\x8d\x1d", 3); /* lea, %r11 */
        at = put_distance(at, page, offsetof(struct arch_stub_data, sites[i]));
        at = put_bytes(at, "\xff\x25", 2); /* jmp *site_entry(%rip) */
        put_distance(at, page, offsetof(struct arch_stub_data, site_entry));
    }
    put_fault_stub(page + FAULT_STUB, page);
}

void arch_init_stub_data(struct arch_stub_data *data, void *self)
{
    data->site_entry = (uintptr_t)arch_site_entry;
    data->fault_entry = (uintptr_t)steer_fault;
    data->self = self;
}

uintptr_t arch_stub_address(uintptr_t data, unsigned index)
{
    return data + ARCH_PAGE + index * STUB_BYTES;
}

uintptr_t arch_fault_stub_address(uintptr_t data)
{
    return data + ARCH_PAGE + FAULT_STUB;
}

int arch_site_patch(uintptr_t address, uintptr_t stub, unsigned char bytes[ARCH_SITE_BYTES])
{
    int64_t distance = (int64_t)(stub - (address + 5));
    if (distance != (int32_t)distance)
        return -1;
    bytes[0] = 0xe9; /* jmp rel32 */
    for (unsigned i = 0; i < 4; i++)
        bytes[1 + i] = (unsigned char)((uint32_t)distance >> (8 * i));
    bytes[5] = 0x0f; /* left as it was: the number would be missing, nothing jumps here */
    bytes[6] = 0x05;
    return 0;
}

int arch_fault_recover(void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    if (at < (uintptr_t)arch_guarded_copy || at >= (uintptr_t)arch_guarded_copy_end)
        return 0;
    registers[REG_RIP] = (greg_t)(uintptr_t)arch_guarded_copy_failed;
    return 1;
}
