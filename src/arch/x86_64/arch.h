/* src/arch/x86_64/arch.h: the few things that differ by processor.
 *
 * Freestanding: usable in the keeper, in a newborn task and in the hooks. */
#ifndef ONESPACE_ARCH_H
#define ONESPACE_ARCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    ARCH_PAGE = 4096,
    ARCH_HUGE_PAGE = 2 << 20,
    ARCH_SITE_BYTES = 15, /* of the longest site */
};

/* clone(2) and clone3(2) for code without libc. The child starts with the registers of the parent
 * on the given stack, takes an argument and a function from it (arch_push_call) and calls it; the
 * function must not return. parent_tid (CLONE_PARENT_SETTID) is written before the child runs.
 * The child's pid or -errno. */
struct clone_args;
long arch_clone(unsigned long flags, void *stack, int32_t *parent_tid);
long arch_clone3(const struct clone_args *arguments, size_t size);

/* Puts the call on a stack that ends at `top`; the stack pointer to start the child with. */
static inline void *arch_push_call(uintptr_t top, void (*function)(void *), void *argument)
{
    uintptr_t *stack = (uintptr_t *)(top & -(uintptr_t)16);
    *--stack = (uintptr_t)function;
    *--stack = (uintptr_t)argument;
    return stack;
}

/* Leaves for a program's entry point as execve does: stack pointer set, other registers cleared. */
_Noreturn void arch_enter_program(uintptr_t stack_pointer, uintptr_t entry);

/* The signal return trampoline that rt_sigaction needs, and the flag that says that there is one
 * (the kernel's SA_RESTORER, which no libc's header has). */
void arch_signal_restorer(void);
#define ARCH_SA_RESTORER 0x04000000ul
enum { ARCH_SIGNAL_SET_BYTES = 8 }; /* of the kernel's sigset_t */

/* ---- Steering: system call sites in a libc that are turned into jumps to a stub ---- */

/* Every task has a data page and, at a fixed distance, a page of stubs (the same physical page as
 * others have). Stub i reaches record i of the data page by its distance alone. */
struct arch_site {
    void *self;       /* the task's slot */
    long nr;          /* the system call's number */
    uintptr_t resume; /* the instruction after the system call */
    long is_loader;   /* the site is in the dynamic linker, not in a libc */
};
/* A place in ld.so that asks for the processor's identity; see cpuid.c. */
struct arch_cpuid_site {
    uint32_t leaf;
    int16_t leaf_register, subleaf_register; /* hardware numbers; ARCH_CPUID_* */
    uintptr_t resume;
};
enum { ARCH_CPUID_IMMEDIATE = -1, ARCH_CPUID_ZERO = -2, ARCH_CPUID_AS_IT_IS = -3 };
enum { ARCH_SITES_MAX = 80, ARCH_CPUIDS_MAX = 60 };
struct arch_stub_data {
    uintptr_t site_entry, fault_entry, cpuid_entry; /* code in the root's library */
    void *self;                                     /* the task's slot */
    struct arch_site sites[ARCH_SITES_MAX];
    struct arch_cpuid_site cpuids[ARCH_CPUIDS_MAX];
};

/* A patchable site in machine code: `length` bytes, of which `lead` in the middle must still run.
 */
struct arch_found_site {
    long nr;
    unsigned char length, lead;
};
/* Finds the next one at or after `from` in code[0, size): its offset, or size when there is none.
 */
size_t arch_next_site(const unsigned char *code, size_t size, size_t from,
                      struct arch_found_site *site);
/* Fills the page of stubs for a data page that lies `distance` bytes behind it. */
void arch_write_stubs(unsigned char page[ARCH_PAGE], int32_t distance);
/* Fills the task's data page but for its sites. */
void arch_init_stub_data(struct arch_stub_data *data, void *self);
/* The address of stub `index`, given the address of the page of stubs. */
uintptr_t arch_stub_address(uintptr_t stubs, unsigned index);
uintptr_t arch_cpuid_stub_address(uintptr_t stubs, unsigned index);
/* The address of the signal handler that calls steer_fault with the task's slot and then jumps to
 * the handler that it names, if any, with registers and stack as the kernel left them. */
uintptr_t arch_fault_stub_address(uintptr_t stubs);
/* Finds the sequences that end in cpuid and into which no jump of the code leads: how many. */
unsigned arch_find_cpuids(const unsigned char *code, size_t size, uint32_t *offsets, unsigned most);
/* Turns the one at the writable `address` into a jump to `stub` and fills its record: 0 or -1. */
int arch_patch_cpuid(uintptr_t address, struct arch_cpuid_site *record, uintptr_t stub);
/* Turns the writable site at `address` into a jump to `stub`. 0, or -1 when out of reach. */
int arch_patch_site(uintptr_t address, const struct arch_found_site *site, uintptr_t stub);

/* Writes a jump to `target` over the beginning of the writable function at `address`. 0, or -1 when
 * it is out of reach. */
enum { ARCH_JUMP_BYTES = 5 };
static inline int arch_write_jump(uintptr_t address, uintptr_t target)
{
    volatile unsigned char *code = (volatile unsigned char *)address;
    int64_t distance = (int64_t)(target - (address + ARCH_JUMP_BYTES));
    if (distance != (int32_t)distance)
        return -1;
    code[0] = 0xe9; /* jmp rel32 */
    for (unsigned i = 0; i < 4; i++)
        code[1 + i] = (unsigned char)((uint32_t)distance >> (8 * i));
    return 0;
}

/* ---- Copies that may fault ---- */

/* Copies size bytes forward; 0, or -1 when a load or a store faulted and arch_fault_recover moved
 * execution there. The second is the faster one, but clobbers vector registers as any function call
 * may: only for sites inside functions of a libc. */
int arch_guarded_copy(void *to, const void *from, size_t size);
int arch_guarded_copy_wide(void *to, const void *from, size_t size);
/* Lets arch_guarded_copy use what this processor has; once, by the root, with its libc at hand. */
void arch_detect(void);
/* Called by the fault handler: when the interrupted context was inside arch_guarded_copy, makes it
 * return -1 and says 1. */
int arch_fault_recover(void *context);

static inline void arch_pause(void)
{
    __asm__ volatile("pause" ::: "memory");
}

#endif
