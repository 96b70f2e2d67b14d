/* tests/programs/chaos.c: does everything that a space offers, in random order, until it is killed.
 *
 * chaos SEED [numbered]: `numbered` also starts groups of one task; only one task may do that. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "onespace.h"

static uint64_t state;

static unsigned random_below(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

static char *random_name(char *name)
{
    sprintf(name, "name%u", random_below(20));
    return name;
}

/* What is imported stays readable until it is released, whatever becomes of the owner. */
static void import_some(int me)
{
    char name[32];
    void *address;
    int owner = me - 12 + (int)random_below(16);
    if (onespace_import(owner, random_name(name), &address, NULL, (int)random_below(3)) != 0)
        return;
    if (*(volatile int *)address != 4711)
        abort();
    if (random_below(3) && onespace_release(owner) != 0)
        abort(); /* else it goes with us */
}

static void spawn_some(int numbered)
{
    char *quick[] = {"true", NULL}, *replaced[] = {"sh", "-c", "exec true", NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    if (random_below(3) == 0)
        attr.flags |= ONESPACE_SPAWN_DETACHED;
    if (numbered)
        attr.number = 0, attr.ntasks = 1;
    int id = random_below(2) ? onespace_spawn("true", quick, NULL, &attr)
                             : onespace_spawn("sh", replaced, NULL, &attr);
    if (id > 0 && random_below(2)) {
        int result =
            onespace_wait(random_below(2) ? id : ONESPACE_ANY, NULL, (int)random_below(20));
        (void)result;
    }
}

static void map_some(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at != MAP_FAILED && random_below(2))
        at = mremap(at, 65536, 65536 << random_below(6), MREMAP_MAYMOVE);
    if (at != MAP_FAILED && random_below(2))
        munmap(at, 65536);
    free(malloc(random_below(1 << 20)));
}

int main(int argc, char **argv)
{
    static int number = 4711;
    char name[32];
    int me = onespace_init(), numbered = argc > 2;
    state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    signal(SIGSEGV, SIG_DFL);
    for (;;) {
        int result = 0;
        switch (random_below(12)) {
        case 0:
        case 1:
        case 2:
            result = onespace_export(random_name(name), &number, sizeof(number));
            break;
        case 3:
            result = onespace_unexport(random_name(name));
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            import_some(me);
            break;
        case 8:
            spawn_some(numbered);
            break;
        case 9:
            result = onespace_barrier((int)random_below(3));
            break;
        case 10:
            map_some();
            break;
        default:
            signal(SIGSEGV, SIG_IGN);
            signal(SIGSEGV, SIG_DFL);
        }
        if (result == -EPERM)
            abort();
    }
}
