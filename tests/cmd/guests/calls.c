/* tests/cmd/guests/calls.c: the system calls that a task's memory needs, in a file without a libc.
 * None is made: it is searched for patch sites. With -DSHARED one of them, munmap, cannot be
 * patched: on x86-64 a branch leads into its middle, on aarch64 the code behind it needs both
 * registers by which it could be resumed. */
#ifdef __aarch64__
#define CALL(number, behind) "mov x8, #" #number "\n svc #0\n " behind "\n ret\n"
#define MMAP                 CALL(222, "nop")
#define BRK                  CALL(214, "nop")
#ifdef SHARED
#define MUNMAP CALL(215, "mov x1, x16\n mov x2, x17")
#else
#define MUNMAP CALL(215, "nop")
#endif
#else
#define MMAP "mov $9, %eax\n syscall\n ret\n"
#define BRK  "mov $12, %eax\n syscall\n ret\n"
#ifdef SHARED
#define MUNMAP "mov $149, %eax\n jmp 1f\n mov $11, %eax\n 1: mov %rdx, %rsi\n syscall\n ret\n"
#else
#define MUNMAP "mov $11, %eax\n mov %rdx, %rsi\n syscall\n ret\n"
#endif
#endif

__asm__(".text\n .globl _start\n _start:\n" MMAP BRK MUNMAP ".skip 64\n");
