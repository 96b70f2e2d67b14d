/* tests/interpose/guests/shared_call.c: one system call instruction with two numbers, as clang -O2
 * makes it of an inline system call: munmap's number stands right before it, mlock's path jumps
 * behind the load. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 65536 }; /* or some */

static long lock_or_unmap(void *address, int lock)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("test %[lock], %[lock]\n"
                     "jz 1f\n"
                     "mov %[nr_lock], %%eax\n"
                     "jmp 2f\n"
                     "1: mov %[nr_unmap], %%eax\n"
                     "2: mov %[address], %%rdi\n"
                     "syscall\n"
                     : "=&a"(result)
                     : [lock] "r"(lock), [address] "r"(address), [nr_lock] "i"(__NR_mlock),
                       [nr_unmap] "i"(__NR_munmap), "S"((long)PAGE)
                     : "rdi", "rcx", "r11", "memory");
    return result;
#else
    register long result __asm__("x0") = (long)address;
    register long size __asm__("x1") = PAGE;
    __asm__ volatile(
        "cbz %[lock], 1f\n"
        "mov x8, %[nr_lock]\n"
        "b 2f\n"
        "1: mov x8, %[nr_unmap]\n"
        "2: svc #0\n"
        : "+r"(result)
        : [lock] "r"((long)lock), [nr_lock] "i"(__NR_mlock), [nr_unmap] "i"(__NR_munmap), "r"(size)
        : "x8", "memory");
    return result;
#endif
}

int main(void)
{
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    page[0] = 1;
    long locked = lock_or_unmap(page, 1), unmapped = lock_or_unmap(page, 0);
    printf("mlock %ld munmap %ld\n", locked, unmapped);
    return locked || unmapped;
}
