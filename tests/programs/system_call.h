/* tests/programs/system_call.h: system calls by an instruction of the program's own. */
#ifndef ONESPACE_TESTS_SYSTEM_CALL_H
#define ONESPACE_TESTS_SYSTEM_CALL_H

/* The kernel's value. Found by the search for patch sites where `nr` is a constant, and not where
 * it comes from memory. */
static inline __attribute__((always_inline)) long system_call(long nr, long a, long b, long c,
                                                              long d, long e, long f)
{
#ifdef __x86_64__
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result = nr;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#endif
}

#endif
