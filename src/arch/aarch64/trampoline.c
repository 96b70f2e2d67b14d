/* src/arch/aarch64/trampoline.c: the page of trampolines and its data. */
#include "arch/trampoline.h"

#include <assert.h>

#include "arch/code/instructions.h"

extern const char arch_syscall_entry[];
extern const uint32_t arch_fault_template[], arch_fault_template_end[];

enum {
    CALL_BYTES = ARCH_SYSCALL_TRAMPOLINE_BYTES,
    FAULT_AT = ARCH_PATCHED_SYSCALLS_MAX * CALL_BYTES,
    FAULT_BYTES = 64,
};

#define AT(type, field, offset)                                                                    \
    static_assert(offsetof(struct type, field) == (offset), "as trampoline.S has it")
AT(arch_trampoline_data, call_entry, ARCH_DATA_SYSCALL_ENTRY);
AT(arch_trampoline_data, self, ARCH_DATA_SELF);
AT(arch_trampoline_data, handlers.call, ARCH_DATA_SYSCALL_HANDLER);
AT(arch_trampoline_data, handlers.fault, ARCH_DATA_FAULT_HANDLER);
AT(arch_patched_syscall, nr, ARCH_SYSCALL_NR);
AT(arch_patched_syscall, resume, ARCH_SYSCALL_RESUME);
AT(arch_patched_syscall, scratch, ARCH_SYSCALL_SCRATCH);
static_assert(CALL_BYTES == ARCH_SYSCALL_TRAMPOLINE, "as trampoline.S has it");
static_assert(sizeof(struct arch_trampoline_data) <= ARCH_DATA_BYTES &&
                  ARCH_DATA_BYTES <= ARCH_PAGE_MIN,
              "one page of data");
static_assert(FAULT_AT + FAULT_BYTES <= ARCH_PAGE_MIN, "one page of trampolines");

/* adrp x16: the page that lies `distance` bytes, whole pages of 4 KiB, above the instruction's. */
static uint32_t address_of_page(int32_t distance)
{
    uint32_t pages = (uint32_t)(distance >> 12);
    return 0x90000010u | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5;
}

static void put_call_trampoline(uint32_t *at, unsigned index, int32_t distance)
{
    uint32_t record = (uint32_t)offsetof(struct arch_trampoline_data, calls) +
                      index * (uint32_t)sizeof(struct arch_patched_syscall);
    at[0] = 0xa9bf47f0u;                /* stp x16, x17, [sp, #-16]! */
    at[1] = address_of_page(distance);  /* adrp x16, data */
    at[2] = 0xf9400211u;                /* ldr x17, [x16]: call_entry */
    at[3] = 0x91000210u | record << 10; /* add x16, x16, #record */
    at[4] = 0xd61f0220u;                /* br x17 */
    at[5] = INSTRUCTION_UNDEFINED;
    /* For unwinders (arch_trampoline_frame). */
    int64_t to_record = (int64_t)distance + record - index * (int64_t)CALL_BYTES;
    at[6] = (uint32_t)to_record;
    at[7] = (uint32_t)((uint64_t)to_record >> 32);
}

void arch_write_trampolines(unsigned char *bytes, int32_t distance)
{
    for (unsigned i = 0; i < ARCH_PATCHED_SYSCALLS_MAX; i++)
        put_call_trampoline((uint32_t *)(void *)(bytes + (size_t)i * CALL_BYTES), i, distance);
    uint32_t *fault = (uint32_t *)(void *)(bytes + FAULT_AT);
    fault[0] = address_of_page(distance);
    for (unsigned i = 1; arch_fault_template + i < arch_fault_template_end; i++)
        fault[i] = arch_fault_template[i];
    instructions_written((uintptr_t)bytes, FAULT_AT + FAULT_BYTES);
}

void arch_init_trampoline_data(struct arch_trampoline_data *data, void *self,
                               const struct arch_handlers *handlers)
{
    /* Addresses in this copy of the library: it must be the root's. */
    data->call_entry = (uintptr_t)arch_syscall_entry;
    data->self = self;
    data->handlers = *handlers;
}

uintptr_t arch_syscall_trampoline(uintptr_t trampolines, unsigned index)
{
    return trampolines + (size_t)index * CALL_BYTES;
}

uintptr_t arch_fault_trampoline(uintptr_t trampolines)
{
    return trampolines + FAULT_AT;
}
