/* tests/programs/watch_unmapping.c: task 0 ends; task 1 watches its memory by a userfaultfd that is
 * to report unmapping, and never reads from it, so that unmapping waits until task 1 has ended.
 * That one reads its standard input to the end. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "onespace.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { PATIENCE_MS = 120000 };

static int own(size_t size)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || onespace_export("memory", memset(memory, 1, size), size) != 0)
        return 1;
    return onespace_barrier(PATIENCE_MS) != 0; /* the other watches */
}

static int watch(void *memory, size_t size)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP};
    struct uffdio_register range = {.range = {(uintptr_t)memory, size},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0 && errno == EPERM)
        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0;
}

int main(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *memory;
    int owner;
    if (onespace_init() < 0)
        return 1;
    if (onespace_number() == 0)
        return own(size);
    while ((owner = onespace_task(0)) == -ESRCH)
        usleep(1000);
    if (onespace_import(owner, "memory", &memory, NULL, PATIENCE_MS) != 0)
        return 1;
    printf("ready: %s\n", watch(memory, size) ? "watching" : "unavailable");
    fflush(stdout);
    if (onespace_release(owner) != 0 || onespace_barrier(PATIENCE_MS) != 0)
        return 1;
    while (getchar() != EOF)
        ;
    return 0;
}
