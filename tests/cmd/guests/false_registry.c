/* tests/cmd/guests/false_registry.c: maps what looks like the registry of a space.
 *   version   one of another version, with the ABI tag 0x63
 *   garbage   one whose head is right and all else is 0xff
 *   named     a space called job-7, of this process alone
 *   names PID   a space called job-7 whose root is this process, and whose task is that other one
 *   escapes     one of another version whose library's name has escape sequences for terminals
 *   empty     all zero, as a space's that is just being made */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "space/registry.h"

int main(int argc, char **argv)
{
    int fd = memfd_create("onespace-space", MFD_CLOEXEC);
    const char *kind = argc > 1 ? argv[1] : "";
    if (fd < 0 || ftruncate(fd, sizeof(struct space)) != 0)
        return 1;
    struct space *space =
        mmap((void *)LAYOUT_REGISTRY, sizeof(struct space), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0);
    volatile uint32_t *mark = mmap((void *)LAYOUT_MARK, 4096, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (space == MAP_FAILED || mark == MAP_FAILED)
        return 1;
    *mark = 1;
    if (strcmp(kind, "garbage") == 0)
        memset(space, 0xff, sizeof(*space));
    if (strcmp(kind, "empty") != 0) {
        space->header = registry_header();
        if (strcmp(kind, "version") == 0 || strcmp(kind, "escapes") == 0)
            space->header.tag = 99;
        if (strcmp(kind, "escapes") == 0)
            strcpy(space->library, "a\033]0;title\a\xc2\x9b"
                                   "1mb\nc");
    }
    if (strcmp(kind, "garbage") == 0) {
        atomic_store(&space->slots[0].state, SLOT_RUNNING);
        atomic_store(&space->slots[1].state, SLOT_ENDED);
        atomic_store(&space->slots[LAYOUT_SLOTS - 1].state, SLOT_LEFT);
    }
    if (strcmp(kind, "names") == 0 && argc > 2) {
        atomic_store(&space->highest, 1);
        atomic_store(&space->slots[1].id, 1);
        atomic_store(&space->slots[1].pid, atoi(argv[2]));
        atomic_store(&space->slots[1].state, SLOT_RUNNING);
    }
    if (strcmp(kind, "named") == 0 || strcmp(kind, "names") == 0) {
        strcpy(space->name, "job-7");
        space->root_pid = getpid();
        atomic_store(&space->slots[0].pid, getpid());
        atomic_store(&space->slots[0].state, SLOT_RUNNING);
    }
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
