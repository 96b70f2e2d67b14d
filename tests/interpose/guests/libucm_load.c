/* tests/interpose/guests/libucm_load.c: a library whose system calls are interposed because of its
 * name, UCX's. Its constructor publishes it, so that threads enter it while it is being loaded. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "programs/system_call.h"

long (*volatile entered)(unsigned long size) __attribute__((weak));

/* Maps, stores and unmaps: where it was mapped, or what failed. */
static long map(unsigned long size)
{
    long at = system_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at > 0)
        *(volatile char *)at = 1;
    long result = at > 0 ? system_call(SYS_munmap, at, (long)size, 0, 0, 0, 0) : at;
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
