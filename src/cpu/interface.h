/* src/cpu/interface.h: what each directory of src/arch defines alike, in assembly or in C: kernel
 * tasks, guarded copies, trampolines and the patching of machine code. A header of the same name
 * in the directory has what differs. Freestanding: usable in the reaper, in a child before its
 * program, and in signal handlers. */
#ifndef ONESPACE_CPU_INTERFACE_H
#define ONESPACE_CPU_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

/* ---- clone.S: kernel tasks and programs ---- */

/* clone(2) and clone3(2). The child starts on the given stack with the registers of the parent,
 * pops an argument and a function (arch_push_call), and calls the function, which must not return.
 * parent_tid (CLONE_PARENT_SETTID) is written before the child runs. Returns the child's pid or
 * -errno. */
struct clone_args;
long arch_clone(unsigned long flags, void *stack, int32_t *parent_tid);
long arch_clone3(const struct clone_args *arguments, size_t size);

/* Pushes the call onto a stack that ends at `top`. Returns the stack pointer for the child. */
static inline void *arch_push_call(uintptr_t top, void (*function)(void *), void *argument)
{
    uintptr_t *stack = (uintptr_t *)(top & -(uintptr_t)16);
    *--stack = (uintptr_t)function;
    *--stack = (uintptr_t)argument;
    return stack;
}

/* Enters a program as execve does: sets the stack pointer and clears the other registers. */
__attribute__((noreturn)) void arch_enter_program(uintptr_t stack_pointer, uintptr_t entry);

/* The signal return code that rt_sigaction needs with ARCH_SA_RESTORER. Never called from C. */
void arch_signal_restorer(void);

/* ---- copy.S: copies that may fault ---- */

/* Copies size bytes forward: 0, or -1 if a load or a store faulted and arch_fault_recover ended the
 * copy. The wide one is faster but clobbers vector registers, as any function call may: only for
 * patch sites inside functions of a libc. */
int arch_guarded_copy(void *to, const void *from, size_t size);
int arch_guarded_copy_wide(void *to, const void *from, size_t size);
/* Called by the handler for SIGSEGV and SIGBUS: if the interrupted context (a ucontext_t) is inside
 * a guarded copy, makes that copy return -1 and returns 1; else 0. */
int arch_fault_recover(void *context);

/* ---- trampoline.c: what patched code jumps to ----
 *
 * Every task has a page of trampolines (the same physical page in all tasks) and, at a fixed
 * distance, a page of data. Trampoline i addresses record i of the data page relative to itself and
 * jumps to this library's code, which calls the handler that the data page names. */

struct arch_handlers;
struct arch_trampoline_data;

/* Fills the page of trampolines for a data page that lies `distance` bytes above it. */
void arch_write_trampolines(unsigned char *page, int32_t distance);
/* Fills the task's data page except for its patched instructions. The handlers must be those of the
 * root's copy of the library: they are called as long as the space lives. */
void arch_init_trampoline_data(struct arch_trampoline_data *data, void *self,
                               const struct arch_handlers *handlers);
/* The address of a trampoline, given the address of their page. */
uintptr_t arch_syscall_trampoline(uintptr_t trampolines, unsigned index);
uintptr_t arch_cpuid_trampoline(uintptr_t trampolines, unsigned index); /* with ARCH_HAS_CPUID */
/* The address of the signal handler that calls handlers.fault with the task's slot and then jumps
 * to the handler that it returns, if any, with registers and stack as the kernel left them. */
uintptr_t arch_fault_trampoline(uintptr_t trampolines);
/* The same for guarded tasks, whose stacks a handler has no right to at its entry: first of all it
 * gets the right to all memory (keys.h). handlers.fault returns with the rights that the handler is
 * to have. With ARCH_HAS_KEYS. */
uintptr_t arch_guard_trampoline(uintptr_t trampolines);

/* An address whose unwinding information (.eh_frame) is right for every trampoline of a call: from
 * one the caller is found by arch_patched_syscall.resume. Never run. */
extern const char arch_trampoline_frame[];

/* ---- code/patch.c: finding system calls in machine code and turning them into jumps ---- */

/* A patch site of a system call: `length` bytes, of which `displaced` in the middle must still run.
 * On aarch64 nothing is displaced. */
struct arch_patch_site {
    long nr;
    unsigned char length, displaced;
};

/* A place in code that is to be replaced as a whole. */
struct arch_span {
    uint32_t at;
    unsigned char length;    /* 0: rejected */
    unsigned char displaced; /* of a system call; on aarch64 set by arch_reject_unsafe: 16 or 17,
                                the register that the code after it does not need */
};

/* Finds the next candidate at or after `from` in code[0, size): its offset, or size when there is
 * none. It may be patched unless arch_reject_unsafe() refuses it. */
size_t arch_next_patch_site(const unsigned char *code, size_t size, size_t from,
                            struct arch_patch_site *site);
/* Rejects those that may not begin with an instruction, those into whose middle a branch of the
 * code may lead, and those after which the trampoline could not return. */
void arch_reject_unsafe(const unsigned char *code, size_t size, struct arch_span *spans,
                        unsigned count);
/* Turns the writable patch site at `address` into a jump to `trampoline`: 0, or -1 when out of
 * reach. */
int arch_patch_syscall(uintptr_t address, const struct arch_patch_site *site, uintptr_t trampoline);

#endif
