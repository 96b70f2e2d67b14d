/* tests/guard/guests/raw-handler.c: a handler that is set by a system call which onespace does not
 * find, as the code of a JIT compiler may make it: the number comes from memory. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kernel_sigaction {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

static volatile long number = SYS_rt_sigaction;
static volatile int seen;
void restore(void);

static void note(int signal)
{
    int here[100];
    here[signal] = seen + 1;
    seen = here[signal];
}

__asm__("  nop\n"
        "restore:\n"
        "  mov $15, %eax\n"
        "  syscall\n");

int main(void)
{
    struct kernel_sigaction action = {(uintptr_t)note, 0x04000000, (uintptr_t)restore, 0};
    register long size __asm__("r10") = 8;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"((long)SIGUSR1), "S"(&action), "d"(0L), "r"(size)
                     : "rcx", "r11", "memory");
    for (int i = 0; i < 10; i++)
        kill(getpid(), SIGUSR1);
    printf("%ld, handled %d\n", result, seen);
    return 0;
}
