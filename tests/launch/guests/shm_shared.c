/* tests/launch/guests/shm_shared.c NAME: the first task makes a file below /dev/shm and a
 * semaphore, and the others find both by name. With "keeps" as a second argument all then wait to
 * be killed, and the names stay. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "onespace.h"

enum { SIZE = 1 << 20, LAST = SIZE / sizeof(int) - 1 };

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    int is_first = onespace_number() == 0, tasks = onespace_ntasks();
    if (argc < 2)
        return 2;
    if (!is_first && onespace_barrier(-1) != 0)
        return 3;
    int fd = shm_open(argv[1], is_first ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
    if (fd < 0 || (is_first && ftruncate(fd, SIZE) != 0))
        return fail("shm_open");
    _Atomic int *counts = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sem_t *semaphore = sem_open(argv[1], is_first ? O_CREAT | O_EXCL : 0, 0600, 0);
    if (counts == MAP_FAILED || semaphore == SEM_FAILED)
        return fail("sem_open");
    if (is_first && onespace_barrier(-1) != 0)
        return 3;
    counts[LAST]++;
    if (is_first)
        for (int i = 1; i < tasks; i++)
            sem_wait(semaphore);
    else
        sem_post(semaphore);
    if (is_first)
        printf("counted %d\n", counts[LAST]);
    fflush(stdout);
    if (argc > 2)
        sleep(600);
    if (is_first && (shm_unlink(argv[1]) != 0 || sem_unlink(argv[1]) != 0))
        return fail("unlink");
    return 0;
}
