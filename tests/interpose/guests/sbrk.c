/* tests/interpose/guests/sbrk.c: what a program does to its heap is gone when the break has been
 * lowered and raised again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "programs/scene.h"

/* Raises the break by whole pages from a page's start, and fills them. */
static unsigned char *raise_break(size_t size)
{
    unsigned char *start = sbrk((intptr_t)(-(uintptr_t)sbrk(0) & 4095));
    start = start == (void *)-1 ? start : sbrk((intptr_t)size);
    if (start == (void *)-1) {
        printf("cannot raise the break\n");
        exit(1);
    }
    memset(start, 0xff, size);
    return start;
}

/* Lowers the break and raises it again: the memory is zero and can be written to. */
static int again(unsigned char *start, size_t size)
{
    size_t dirty = 0;
    if (brk(start) != 0 || sbrk((intptr_t)size) != start)
        return printf("the break is not where it was set\n"), 1;
    for (size_t i = 0; i < size; i++)
        dirty += start[i] != 0;
    memset(start, 1, size);
    return printf(dirty ? "%zu bytes are not zero\n" : "zero\n", dirty), dirty != 0;
}

/* locked BYTES: with one page that is locked. */
SCENE(locked)
{
    size_t size = (size_t)atol(argv[argc - 1]);
    unsigned char *start = raise_break(size);
    return mlock(start + size / 2, 1) != 0 ? printf("mlock failed\n"), 1 : again(start, size);
}

/* protected BYTES: read-only. */
SCENE(protected)
{
    size_t size = (size_t)atol(argv[argc - 1]);
    unsigned char *start = raise_break(size);
    mprotect(start, size, PROT_READ);
    return again(start, size);
}

/* replaced BYTES: by a shared mapping, and a hole. */
SCENE(replaced)
{
    size_t size = (size_t)atol(argv[argc - 1]);
    unsigned char *start = raise_break(size);
    if (mmap(start, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        start)
        return printf("cannot be replaced\n"), 1;
    memset(start, 0xee, 8192);
    munmap(start + 4096, 4096);
    return again(start, size);
}

/* neighbour BYTES: fills, says so, and goes on at the end of its input. */
SCENE(neighbour)
{
    size_t size = (size_t)atol(argv[argc - 1]);
    unsigned char *start = raise_break(size), byte;
    printf("filled\n");
    fflush(stdout);
    return read(0, &byte, 1) < 0 ? 1 : again(start, size);
}

SCENE(lock_all)
{
    return mlockall(MCL_CURRENT) != 0 ? printf("not permitted\n"), 1 : printf("locked\n") < 0;
}

/* Kills the process at any system call but these. */
static int allow(const int *calls, unsigned count, int by_prctl)
{
    struct sock_filter code[32];
    unsigned at = 0;
    code[at++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++) {
        code[at++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)at, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                    : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* filtered HOW: allocates 60 MiB behind a filter that allows brk and not mmap, and frees them. */
SCENE(filtered)
{
    enum { BLOCKS = 600, SIZE = 100000 };
    static const int calls[] = {SYS_brk,          SYS_write,      SYS_exit_group,
                                SYS_rt_sigreturn, SYS_newfstatat, SYS_getrandom};
    static char *blocks[BLOCKS];
    printf("the buffer of standard output is made\n");
    fflush(stdout);
    /* Refused, as by programs that ask what there is: it changes nothing. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == 0)
        return 1;
    if (allow(calls, sizeof(calls) / sizeof(calls[0]), !strcmp(argv[argc - 1], "prctl")) != 0)
        return printf("no filter\n"), 1;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            if (!(blocks[i] = malloc(SIZE)))
                return printf("none left\n"), 1;
            memset(blocks[i], 1, SIZE);
        }
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        char *start = sbrk(0), *more = sbrk(1 << 20);
        for (int i = 4096; i < 1 << 20; i++)
            if (more != start || more[i])
                return printf("not zero\n"), 1;
        memset(more, 1, 1 << 20);
        sbrk(-(1 << 20));
    }
    printf("allocated\n");
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
