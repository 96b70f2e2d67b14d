/* tests/interpose/guests/patch_sites.c: has more patch sites than a task has trampolines, and
 * mappings at more fixed addresses than are remembered. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "programs/scene.h"

enum { PATCH_SITES = 200, PAGE = 65536, RANGE_GIB = 28 };

/* PATCH_SITES calls of mmap, each by an instruction of its own. */
static void map_everywhere(unsigned char *mapped[PATCH_SITES])
{
    unsigned char **at = mapped;
#ifdef __x86_64__
    register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS;
    register long fd __asm__("r8") = -1;
    register long offset __asm__("r9") = 0;
    __asm__ volatile(".rept 200\n"
                     "mov $9, %%eax\n"
                     "syscall\n"
                     "mov %%rax, (%%rbx)\n"
                     "add $8, %%rbx\n"
                     ".endr"
                     : "+b"(at)
                     : "D"(0l), "S"((long)PAGE), "d"((long)(PROT_READ | PROT_WRITE)), "r"(flags),
                       "r"(fd), "r"(offset)
                     : "rax", "rcx", "r11", "memory");
#else
    register long size __asm__("x1") = PAGE, access __asm__("x2") = PROT_READ | PROT_WRITE;
    register long flags __asm__("x3") = MAP_PRIVATE | MAP_ANONYMOUS;
    register long fd __asm__("x4") = -1, offset __asm__("x5") = 0;
    /* Each is followed by a call, where x16 and x17 are free: without, the paths from the first
     * ones were too long to be searched (src/arch/aarch64/code/reject_unsafe.c). */
    __asm__ volatile(".rept 200\n"
                     "mov x0, #0\n"
                     "mov x8, #222\n"
                     "svc #0\n"
                     "str x0, [%[at]], #8\n"
                     "bl .+4\n"
                     ".endr"
                     : [at] "+r"(at)
                     : "r"(size), "r"(access), "r"(flags), "r"(fd), "r"(offset)
                     : "x0", "x8", "x16", "x17", "x30", "memory");
#endif
}

static int is_close(const void *one, const void *other)
{
    uintptr_t a = (uintptr_t)one, b = (uintptr_t)other;
    return (a > b ? a - b : b - a) < (uintptr_t)RANGE_GIB << 30;
}

/* "wrong W close N heap H": mappings that are not as they should be; that lie in the task's range;
 * whether the heap does. */
SCENE(many)
{
    static unsigned char *mapped[PATCH_SITES];
    int wrong = 0, close = 0;
    map_everywhere(mapped);
    for (int i = 0; i < PATCH_SITES; i++)
        *mapped[i] = (unsigned char)i;
    for (int i = 0; i < PATCH_SITES; i++) {
        wrong += *mapped[i] != (unsigned char)i;
        close += is_close(mapped[i], mapped);
        wrong += munmap(mapped[i], PAGE) != 0;
    }
    void *heap = malloc(1000);
    printf("wrong %d close %d heap %d\n", wrong, close, is_close(heap, mapped));
    free(heap);
    return 0;
}

/* As many as the argument says, not in any range, and not side by side. With a further argument,
 * stays until its input ends. */
SCENE(fixed)
{
    uintptr_t count = strtoul(argv[1], NULL, 10);
    for (uintptr_t i = 0; i < count; i++) {
        void *wanted = (void *)(UINT64_C(0x150000000000) + i * 16 * PAGE);
        if (mmap(wanted, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                 0) != wanted)
            return 1;
    }
    printf("mapped %ju\n", (uintmax_t)count);
    while (argc > 2 && getchar() != EOF)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
