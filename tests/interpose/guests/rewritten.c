/* tests/interpose/guests/rewritten.c: makes a system call that is interposed. With OTHER it has the
 * call at another place. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "programs/system_call.h"

static inline long map_page(void)
{
#ifdef __x86_64__
    long result;
    register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS;
    register long fd __asm__("r8") = -1;
    register long offset __asm__("r9") = 0;
    __asm__ volatile("mov %[nr], %%eax; syscall"
                     : "=a"(result)
                     : [nr] "i"(SYS_mmap), "D"(0), "S"(4096), "d"(PROT_READ | PROT_WRITE),
                       "r"(flags), "r"(fd), "r"(offset)
                     : "rcx", "r11", "memory");
    return result;
#else
    return system_call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
#endif
}

#ifdef OTHER
#define BEFORE __asm__ volatile(".rept 13\nnop\n.endr")
#define NAME   "the other"
#else
#define BEFORE (void)0
#define NAME   "one"
#endif

int main(void)
{
    BEFORE;
    char *page = (char *)map_page();
    *page = 1;
    puts(NAME);
    return 0;
}
