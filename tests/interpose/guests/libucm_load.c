/* tests/interpose/guests/libucm_load.c: a library whose system calls are interposed because of its
 * name, UCX's. Its constructor publishes it, so that threads enter it while it is being loaded. */
#include <sys/mman.h>
#include <sys/syscall.h>

long (*volatile entered)(unsigned long size) __attribute__((weak));

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result = nr;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Maps, stores and unmaps: where it was mapped, or what failed. */
static long map(unsigned long size)
{
    long at =
        call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at > 0)
        *(volatile char *)at = 1;
    long result = at > 0 ? call(SYS_munmap, at, (long)size, 0, 0, 0, 0) : at;
    return result ? result : at;
}

__attribute__((constructor)) static void publish(void)
{
    entered = map;
}
__attribute__((destructor)) static void withdraw(void)
{
    entered = 0;
}
