/* tests/launch/guests/fragments.c: takes mappings until there are none left: pages of alternating
 * protection, as the kernel merges neighbours that are alike. By its argument: "waits" for ever
 * then, as a rank in MPI_Init whose peers cannot go on; "fails": the second rank does when it gets
 * none; "recovers": gives them back. The others only wait. Says "out" when there are none left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "onespace.h"

enum { MOST = 1 << 20, PAGE = 4096 };

static void *pieces[MOST];

static unsigned take_all(void)
{
    unsigned count = 0;
    for (void *piece; count < MOST; pieces[count++] = piece) {
        int protection = count % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
        piece = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED)
            break;
    }
    return errno == ENOMEM ? count : 0;
}

static int fail(void)
{
    for (void *piece;
         (piece = mmap(NULL, PAGE, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED;
         usleep(1000))
        munmap(piece, PAGE);
    return 3;
}

int main(int argc, char **argv)
{
    const char *then = argc > 1 ? argv[1] : "waits";
    /* A task that is still to come when there are no mappings left cannot start. */
    int others = strcmp(then, "recovers") == 0 || onespace_ntasks() == 2;
    if (others && onespace_barrier(60000) != 0)
        return 5;
    if (onespace_number() == 1 && strcmp(then, "fails") == 0)
        return fail();
    if (onespace_number() != 0) {
        if (strcmp(then, "waits") != 0)
            return onespace_barrier(60000) == 0 ? 0 : 5;
        sleep(600);
        return 4;
    }
    unsigned count = take_all();
    if (count == 0)
        return 7;                            /* there is no limit here */
    (void)!write(STDOUT_FILENO, "out\n", 4); /* printf might need a mapping */
    if (strcmp(then, "recovers") != 0)
        sleep(600);
    /* They are neighbours: one call is quick, also on a busy machine. */
    char *low = pieces[0], *high = pieces[count - 1];
    if (high < low) {
        low = high;
        high = pieces[0];
    }
    if (high - low != (ptrdiff_t)(count - 1) * PAGE || munmap(low, (size_t)count * PAGE) != 0)
        return 6;
    sleep(8); /* longer than a job without mappings lives */
    return onespace_barrier(60000) == 0 ? 0 : 5;
}
