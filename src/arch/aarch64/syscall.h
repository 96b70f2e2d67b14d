/* src/arch/aarch64/syscall.h: the interface to the kernel without libc: system calls, making a
 * kernel task, entering a program; and the CPU's pause and clock.
 *
 * Freestanding: usable in the reaper, in a child before its program, and in signal handlers. */
#ifndef ONESPACE_ARCH_SYSCALL_H
#define ONESPACE_ARCH_SYSCALL_H

#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the kernel's value: a result or -errno. Touches neither errno nor any other thread-local
 * storage. */
#ifdef __clang_analyzer__
/* The analyzer does not understand the assembly below. It assumes that a function it cannot see
 * writes to everything. */
long raw_syscall6(long nr, long a1, long a2, long a3, long a4, long a5, long a6);
#else
static inline long raw_syscall6(long nr, long a1, long a2, long a3, long a4, long a5, long a6)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a1;
    register long x1 __asm__("x1") = a2;
    register long x2 __asm__("x2") = a3;
    register long x3 __asm__("x3") = a4;
    register long x4 __asm__("x4") = a5;
    register long x5 __asm__("x5") = a6;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}
#endif

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

static inline void arch_pause(void)
{
    __asm__ volatile("yield" ::: "memory");
}

/* A clock of some nanoseconds, for comparisons of short spans on one CPU. Unordered: the CPU may
 * read it a few instructions early or late, and a hypervisor may let it advance in larger steps, up
 * to ARCH_TICKS_NOISE. */
enum { ARCH_TICKS_NOISE = 1 };
static inline uint64_t arch_ticks(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
}

#endif
