/* tests/xpmem/guests/xpmem-chaos.c: makes, gets, attaches, checks, releases and removes in random
 * order until it is killed. The tasks tell each other their segments in a page of the root's.
 *
 * xpmem-chaos SEED BOARD: BOARD is the address of 64 words for segment ids. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "xpmem.h"

enum { BOARD = 64, OWN = 32, PAGES = 16, PAGE = 4096 };

static uint64_t state;
static xpmem_segid_t *board;
static struct {
    xpmem_segid_t segid;
    int place, pages;
} segments[OWN];
static xpmem_apid_t permits[OWN];
static uint64_t *memory;

static unsigned random_below(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

static void must(int right, const char *what)
{
    if (right)
        return;
    printf("%s (errno %d)\n", what, errno);
    fflush(stdout);
    abort();
}

static void make_one(void)
{
    unsigned at = random_below(OWN);
    int pages = 1 + (int)random_below(PAGES);
    if (segments[at].segid) {
        must(xpmem_remove(segments[at].segid) == 0, "remove");
        must(xpmem_remove(segments[at].segid) == -1 && errno == ENOENT, "remove twice");
    }
    segments[at].segid = xpmem_make(memory, (size_t)pages * PAGE, XPMEM_PERMIT_MODE, (void *)0600);
    must(segments[at].segid > 0 && (segments[at].segid & 0xffffffff) == getpid(), "make");
    __atomic_store_n(&board[random_below(BOARD)], segments[at].segid, __ATOMIC_RELEASE);
}

/* Each page of a task's memory holds the owner's pid, so what is attached can be told from wild
 * memory; the owner may be dead. */
static void attach_some(xpmem_apid_t apid, xpmem_segid_t segid)
{
    struct xpmem_addr addr = {apid, (off_t)random_below(PAGES) * PAGE};
    uint64_t *at = xpmem_attach(addr, PAGE, NULL);
    if (at == (void *)-1) {
        must(errno == ENOENT || errno == EINVAL, "attach");
        return;
    }
    must(*at == (uint64_t)(segid & 0xffffffff), "outside memory");
    must(xpmem_detach(at) == 0, "detach");
    must(*(volatile uint64_t *)at == (uint64_t)(segid & 0xffffffff), "memory went");
}

static void get_one(void)
{
    unsigned at = random_below(OWN);
    xpmem_segid_t segid = __atomic_load_n(&board[random_below(BOARD)], __ATOMIC_ACQUIRE);
    if (permits[at]) {
        must(xpmem_release(permits[at]) == 0, "release");
        must(xpmem_release(permits[at]) == -1 && errno == ENOENT, "release twice");
        permits[at] = 0;
    }
    if (!segid)
        return;
    xpmem_apid_t apid = xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL);
    must(apid > 0 || errno == ENOENT, "get");
    if (apid > 0) {
        permits[at] = apid;
        attach_some(apid, segid);
    }
}

int main(int argc, char **argv)
{
    state = strtoull(argv[argc > 1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    board = (xpmem_segid_t *)(uintptr_t)strtoull(argv[2], NULL, 16);
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < PAGES; page++)
        memory[page * PAGE / sizeof(*memory)] = (uint64_t)getpid();
    for (;;) {
        if (random_below(3) == 0)
            make_one();
        else
            get_one();
    }
}
