/* src/arch/x86_64/keys.h: protection keys: what the calling thread may do with memory of each key.
 *
 * A thread's rights are one word, PKRU, with two bits for each of 16 keys: bit 2n denies access to
 * memory of key n, bit 2n + 1 writing to it. Memory without a key has key 0. Freestanding. */
#ifndef ONESPACE_ARCH_KEYS_H
#define ONESPACE_ARCH_KEYS_H

#include <cpuid.h>
#include <stdint.h>
#include <ucontext.h>

#define ARCH_HAS_KEYS 1

enum { ARCH_KEYS = 16 };

#define ARCH_NO_ACCESS(key) (UINT32_C(1) << 2 * (key))
#define ARCH_NO_WRITE(key)  (UINT32_C(2) << 2 * (key))

/* The kernel gives every program and every signal handler access to key 0 only. */
#define ARCH_RIGHTS_INITIAL UINT32_C(0x55555554)

/* Whether the CPU has keys, and whether the kernel uses them: without that the instructions below
 * raise SIGILL. */
static inline int arch_cpu_has_keys(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 3);
}

static inline int arch_kernel_has_keys(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 4);
}

static inline uint32_t arch_rights(void)
{
    uint32_t rights, zero;
    __asm__ volatile("rdpkru" : "=a"(rights), "=d"(zero) : "c"(0));
    return rights;
}

/* A barrier for the compiler: no load or store moves across it. */
static inline void arch_set_rights(uint32_t rights)
{
    __asm__ volatile("wrpkru" : : "a"(rights), "c"(0), "d"(0) : "memory");
}

/* The offset of the rights in the state that a signal frame saves, bytes: for arch_saved_rights. */
static inline uint32_t arch_saved_rights_at(void)
{
    unsigned a, b = 0, c, d;
    (void)__get_cpuid_count(0xd, 9, &a, &b, &c, &d);
    return b;
}

/* The rights of the interrupted code in a handler's ucontext_t. A value stored there is in force
 * when the handler has returned. */
static inline uint32_t *arch_saved_rights(void *context, uint32_t at)
{
    enum { IN_USE = 512, RIGHTS_IN_USE = 1 << 9 }; /* of the extended state's header */
    char *state = (char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    *(uint64_t *)(state + IN_USE) |= RIGHTS_IN_USE;
    return (uint32_t *)(state + at);
}

/* Sets or clears single stepping in a handler's ucontext_t: the interrupted code executes one
 * instruction, then SIGTRAP is raised. */
static inline void arch_set_stepping(void *context, int is_stepping)
{
    enum { TRAP = 0x100 };
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    *flags = is_stepping ? *flags | TRAP : *flags & ~(greg_t)TRAP;
}

#endif
