/* src/arch/x86_64/entry.h: making a kernel task and entering a program.
 *
 * Freestanding: usable in the reaper, in a child before its program, and in signal handlers. */
#ifndef ONESPACE_ARCH_ENTRY_H
#define ONESPACE_ARCH_ENTRY_H

#include <stddef.h>
#include <stdint.h>

/* clone(2) and clone3(2) for code without libc. The child starts with the registers of the parent
 * on the given stack, pops an argument and a function (arch_push_call) and calls it; the function
 * must not return. parent_tid (CLONE_PARENT_SETTID) is written before the child runs. The child's
 * pid or -errno. */
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

/* Leaves for a program's entry point as execve does: stack pointer set, other registers cleared. */
_Noreturn void arch_enter_program(uintptr_t stack_pointer, uintptr_t entry);

/* The signal return code that rt_sigaction needs with ARCH_SA_RESTORER. Never called from C. */
void arch_signal_restorer(void);

static inline void arch_pause(void)
{
    __asm__ volatile("pause" ::: "memory");
}

/* A clock of about a nanosecond, for comparisons of short spans on one CPU. Unordered: the CPU may
 * read it a few instructions early or late, and a hypervisor may let it advance in larger steps, up
 * to ARCH_TICKS_NOISE. */
enum { ARCH_TICKS_NOISE = 26 };
static inline uint64_t arch_ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

#endif
