/* tests/interpose/guests/mappings.c: mappings of unusual kinds. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/mman.h>

#include "programs/scene.h"
#include "programs/system_call.h"

enum { PAGE = 4096, MIB = 1 << 20, HUGE = 2 << 20, GIB = 1 << 30 };

static void *map(size_t size, int prot, int flags)
{
    return mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

static int report(const char *what, int is_fine)
{
    printf("%s: %s\n", what, is_fine ? "fine" : strerror(errno));
    return !is_fine;
}

/* The pages move and the addresses stay; and a second mapping of shared pages. */
SCENE(mremap)
{
    enum { SIZE = 64 * 1024 };
    char *from = map(SIZE, PROT_READ | PROT_WRITE, 0);
    memset(from, 7, SIZE);
    char *to = mremap(from, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    int wrong = report("moved", to != MAP_FAILED && to[SIZE - 1] == 7 && from[SIZE - 1] == 0);
    char *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[5] = 9;
    char *twice = mremap(shared, 0, SIZE, MREMAP_MAYMOVE);
    wrong += report("duplicated", twice != MAP_FAILED && twice != shared && twice[5] == 9);
    /* Fails, and what was there stays. */
    wrong += report("refused", mremap(to, SIZE, SIZE, MREMAP_MAYMOVE | 64) == MAP_FAILED &&
                                   errno == EINVAL && to[5] == 7);
    return wrong;
}

/* Memory that a device has the address of. */
SCENE(ring)
{
    unsigned parameters[30] = {0};
    long fd = syscall(SYS_io_uring_setup, 8, parameters);
    if (fd < 0)
        return printf("none\n"), 0;
    void *ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, (int)fd, 0);
    int wrong = report("ring", ring != MAP_FAILED);
    return wrong + report("unmapped", munmap(ring, PAGE) == 0);
}

/* A size of pages, as flags of mmap and memfd_create have it. */
struct pages {
    int flag;
    size_t size;
};
static const struct pages huge_pages = {MAP_HUGE_2MB, HUGE}, gib_pages = {MAP_HUGE_1GB, GIB};

static int make_huge_file(struct pages pages, const char *name)
{
    int fd = memfd_create(name, MFD_HUGETLB | (unsigned)pages.flag);
    return fd >= 0 && ftruncate(fd, (off_t)(2 * pages.size)) == 0 ? fd : -1;
}

static int map_huge_file(struct pages pages, const char *what, int flags, size_t size)
{
    int fd = make_huge_file(pages, "huge");
    if (fd < 0)
        return printf("no huge pages\n"), 0;
    char *at = mmap(NULL, size, PROT_READ, flags | MAP_NORESERVE, fd, 0);
    int wrong = report(what, at != MAP_FAILED && (uintptr_t)at % pages.size == 0);
    close(fd);
    return wrong + report("unmapped", munmap(at, (size + pages.size - 1) & -pages.size) == 0);
}

static int map_huge_files(struct pages pages)
{
    int wrong = 0;
    for (int i = 0; i < 2; i++) {
        wrong += map_huge_file(pages, "shared", MAP_SHARED, pages.size);
        wrong += map_huge_file(pages, "private", MAP_PRIVATE, pages.size);
        wrong += map_huge_file(pages, "shared, short", MAP_SHARED, PAGE);
        wrong += map_huge_file(pages, "private, short", MAP_PRIVATE, PAGE);
        (void)map(PAGE, PROT_READ, 0);
    }
    return wrong;
}

/* Without a use of the pages, since there may be none. */
SCENE(huge)
{
    return map_huge_files(huge_pages);
}

/* Pages of 1 GiB: files, and without a file whole and rounded up by the kernel. */
SCENE(gib)
{
    int flags = MAP_HUGETLB | gib_pages.flag;
    char *at[3];
    at[0] = map(GIB, PROT_READ, flags);
    if (at[0] == MAP_FAILED)
        return printf("none: %s\n", strerror(errno)), 0;
    at[1] = map(PAGE, PROT_READ, flags);
    at[2] = map(GIB, PROT_READ, flags);
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        wrong += report("of 1 GiB", at[i] != MAP_FAILED && (uintptr_t)at[i] % GIB == 0);
        wrong += report("apart", at[i] != at[(i + 1) % 3]);
    }
    wrong += report("a part is not unmapped", munmap(at[1], PAGE) != 0);
    for (int i = 0; i < 3; i++)
        wrong += report("unmapped", munmap(at[i], GIB) == 0);
    return wrong + map_huge_files(gib_pages);
}

/* gib-left: the same, left to the end of the program. */
SCENE(gib_left)
{
    int fd = make_huge_file(gib_pages, "huge");
    if (fd < 0 || map(PAGE, PROT_READ, MAP_HUGETLB | gib_pages.flag) == MAP_FAILED)
        return printf("none\n"), 0;
    int wrong = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0) == MAP_FAILED;
    return wrong + (mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0) == MAP_FAILED);
}

/* short-left file|segment: less than a huge page of it, shared, left to the end of the program. */
SCENE(short_left)
{
    if (argc > 1 && strcmp(argv[1], "file") == 0) {
        int fd = make_huge_file(huge_pages, "huge-left");
        if (fd < 0)
            return printf("none\n"), 0;
        return mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0) == MAP_FAILED;
    }
    int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | SHM_NORESERVE | SHM_HUGETLB | 0600);
    if (id < 0)
        return printf("none\n"), 0;
    int wrong = shmat(id, NULL, SHM_RDONLY) == (void *)-1;
    shmctl(id, IPC_RMID, NULL);
    return wrong;
}

/* left ADDRESS: what the kernel rounds up, or does not unmap, is left to the end of the program. */
SCENE(left)
{
    enum { SIZE = 100000 };
    char *at = (char *)strtoull(argv[argc - 1], NULL, 16);
    int wrong = report("huge", map(SIZE, PROT_READ, MAP_HUGETLB) != MAP_FAILED);
    wrong += report("huge at an address", mmap(at, SIZE, PROT_READ,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                                                   MAP_HUGETLB | MAP_FIXED_NOREPLACE,
                                               -1, 0) == at);
    at += 2 * HUGE;
    wrong += report("at an address",
                    mmap(at, SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
    /* All of these fail. */
    wrong += munmap(at + 1, PAGE) == 0;
    wrong += shmdt(at) == 0;
    wrong += mremap(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE | 64) != MAP_FAILED;
    wrong += mremap((void *)0x10000, PAGE, 2 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED;
    printf("left\n");
    return wrong;
}

static uintptr_t lowest = UINTPTR_MAX, highest;

static void note(void *at, size_t size)
{
    uintptr_t low = (uintptr_t)at, high = low + size - 1;
    lowest = low < lowest ? low : lowest;
    highest = high > highest ? high : highest;
}

/* wrap: 12 GiB in the middle are free, the ends are not. Then small mappings, which do not merge.
 * Prints the lowest and the highest address. */
SCENE(wrap)
{
    enum { COUNT = 4000 };
    (void)map((size_t)4096 * MIB, PROT_NONE, 0);
    char *middle = map((size_t)12240 * MIB, PROT_NONE, 0);
    (void)map(2 * MIB, PROT_NONE, 0);
    munmap(middle, (size_t)12240 * MIB);
    for (int i = 0; i < 40; i++)
        (void)map(MIB, PROT_NONE, 0);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 2 ? PAGE : 2 * PAGE;
        char *at = map(size, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, 0);
        if (at == MAP_FAILED)
            return report("map", 0);
        note(at, size);
    }
    printf("%lx\n%lx\n", lowest, highest);
    return 0;
}

/* holes: every second of many mappings goes, and what fits into the holes comes back there. The
 * area is used up several times over. */
SCENE(holes)
{
    enum { COUNT = 200, ROUNDS = 6 };
    const size_t size = (size_t)64 * MIB;
    static char *at[COUNT];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = round & 1; i < COUNT; i += 2) {
            if (at[i])
                munmap(at[i], size);
            if ((at[i] = map(size, PROT_READ | PROT_WRITE, 0)) == MAP_FAILED)
                return report("map", 0);
            note(at[i], size);
            (void)madvise(at[i], size, MADV_NOHUGEPAGE); /* or two bytes may take 4 MiB */
            at[i][0] = at[i][size - 1] = (char)i;
        }
    }
    for (int i = 0; i < COUNT; i++)
        if (at[i][0] != (char)i || at[i][size - 1] != (char)i)
            return printf("overwritten\n"), 1;
    printf("%lx\n%lx\n", lowest, highest);
    return 0;
}

/* unseen: what was mapped in the range without the handler's knowledge is not replaced. */
SCENE(unseen)
{
    enum { COUNT = 300 };
    volatile long number = SYS_mmap; /* a number that is not a constant of the instruction */
    const size_t far = (size_t)256 * MIB;
    char *start = map(PAGE, PROT_READ, 0), *hidden = start + far;
    munmap(start, PAGE);
    long got = system_call(number, (long)hidden, 3 * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != (long)hidden)
        return printf("not there\n"), 1;
    memset(hidden, 5, 3 * PAGE);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 3 ? (size_t)MIB : far;
        char *at = map(size, PROT_READ | PROT_WRITE, 0);
        if (at == MAP_FAILED)
            return report("map", 0);
        note(at, size);
        at[0] = at[size - 1] = 1;
        if (i % 3 == 0)
            munmap(at, size);
    }
    for (int i = 0; i < 3 * PAGE; i++)
        if (hidden[i] != 5)
            return printf("overwritten\n"), 1;
    printf("%lx\n%lx\n", lowest, highest);
    return 0;
}

/* segments: attaches and detaches more than an area holds. */
SCENE(segments)
{
    const size_t size = (size_t)1024 * MIB;
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_NORESERVE | 0600);
    for (int i = 0; id >= 0 && i < 40; i++) {
        void *at = shmat(id, NULL, SHM_RDONLY);
        if (at == (void *)-1)
            return report("shmat", 0);
        note(at, size);
        if (shmdt(at) != 0)
            return report("shmdt", 0);
    }
    if (id < 0)
        return printf("none\n"), 0;
    shmctl(id, IPC_RMID, NULL);
    printf("%lx\n%lx\n", lowest, highest);
    return 0;
}

enum { MSEAL = 462 };

/* seal: a page that nothing can unmap, between others: by an instruction that is not interposed. */
SCENE(seal)
{
    enum { SIZE = 256 * PAGE };
    volatile long number = MSEAL;
    char *at = map(SIZE, PROT_READ | PROT_WRITE, 0);
    memset(at, 1, SIZE);
    if (system_call(number, (long)(at + SIZE / 2), PAGE, 0, 0, 0, 0) != 0)
        return printf("none\n"), 0;
    printf("%lx\n", (unsigned long)at);
    return 0;
}

static void say_result(const char *what, int failed)
{
    printf("%s: %s\n", what, failed ? strerror(errno) : "done");
}

/* Whether the kernel lists the mapping of that address as sealed. */
static int is_listed_as_sealed(const char *address)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    int is_it = 0, found = 0;
    for (unsigned long from, to; file && fgets(line, sizeof(line), file);) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            is_it = (unsigned long)address >= from && (unsigned long)address < to;
        found |= is_it && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " sl");
    }
    if (file)
        fclose(file);
    return found;
}

/* sealed: what can be done with memory that the program has sealed. */
SCENE(sealed)
{
    char *at = map(16 * PAGE, PROT_READ | PROT_WRITE, 0), *writable = at + 8 * PAGE;
    memset(at, 7, 16 * PAGE);
    mprotect(at, 4 * PAGE, PROT_READ);
    munmap(at + 6 * PAGE, PAGE);
    if (syscall(MSEAL, at, 0L, 1L) == 0 || errno == ENOSYS)
        return printf("none\n"), 0;
    say_result("flags", syscall(MSEAL, at, 4L * PAGE, 1L) != 0);
    say_result("unaligned", syscall(MSEAL, at + 1, 1L * PAGE, 0L) != 0);
    say_result("nothing", syscall(MSEAL, at, 0L, 0L) != 0);
    say_result("wraps", syscall(MSEAL, at, -1L, 0L) != 0);
    say_result("a hole", syscall(MSEAL, at + 4 * PAGE, 4L * PAGE, 0L) != 0);
    say_result("read-only", syscall(MSEAL, at, 2L * PAGE + 1, 0L) != 0);
    say_result("again", syscall(MSEAL, at, 1L * PAGE, 0L) != 0);
    say_result("writable", syscall(MSEAL, writable, 2L * PAGE, 0L) != 0);
    say_result("munmap", munmap(at, PAGE) != 0);
    say_result("munmap of more", munmap(at - PAGE, 8 * PAGE) != 0);
    say_result("munmap behind", munmap(at + 3 * PAGE, PAGE) != 0);
    say_result("munmap of nothing", munmap(at, 0) != 0);
    say_result("mprotect", mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE) != 0);
    say_result("mprotect to the same", mprotect(at + PAGE, PAGE, PROT_READ) != 0);
    say_result("mremap", mremap(writable, PAGE, 4 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
    say_result("mremap to less", mremap(writable, 2 * PAGE, PAGE, 0) == MAP_FAILED);
    say_result("mmap over it", mmap(writable + PAGE, PAGE, PROT_READ,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
    char *other = map(PAGE, PROT_READ, 0);
    say_result("mremap onto it",
               mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, writable) == MAP_FAILED);
    say_result("discard read-only", madvise(at, PAGE, MADV_DONTNEED) != 0);
    say_result("discard writable", madvise(writable, PAGE, MADV_DONTNEED) != 0);
    say_result("other advice", madvise(at, PAGE, MADV_WILLNEED) != 0);
    printf("%d %d %d\n", at[0], writable[0], writable[PAGE]);
    printf("listed %d %d\n", is_listed_as_sealed(at), is_listed_as_sealed(at + 5 * PAGE));
    return 0;
}

/* mdwe: no memory that is both writable and executable. */
SCENE(mdwe)
{
    return prctl(65 /* PR_SET_MDWE */, 1L, 0L, 0L, 0L) == 0 ? printf("set\n"),
           0                                                : printf("refused\n"), 0;
}

/* mdwe-unseen: the same by an instruction that is not interposed. */
SCENE(mdwe_unseen)
{
    volatile long number = SYS_prctl;
    long result = system_call(number, 65, 1, 0, 0, 0, 0);
    printf(result == 0 ? "set\n" : "none\n");
    return 0;
}

/* marks [ADDRESS]: a page of its own or of another task, which it says; then by the letters of its
 * input: marks it for no forked child, unmarks it, replaces it, moves another page over it, or
 * forks and says whether the child has it. */
SCENE(marks)
{
    void *page = NULL;
    if (argc < 2 || sscanf(argv[1], "%p", &page) != 1)
        page = map(PAGE, PROT_READ | PROT_WRITE, 0);
    printf("%p\n", page);
    for (int letter; (letter = getchar()) != EOF;) {
        unsigned char resident;
        int status = 0;
        if (letter == 'm' || letter == 'u')
            status = madvise(page, PAGE, letter == 'm' ? MADV_DONTFORK : MADV_DOFORK);
        else if (letter == 'r')
            status = mmap(page, PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page;
        else if (letter == 'o')
            status = mremap(map(PAGE, PROT_READ | PROT_WRITE, 0), PAGE, PAGE,
                            MREMAP_MAYMOVE | MREMAP_FIXED, page) != page;
        else if (letter != 'f')
            continue;
        pid_t child = letter == 'f' ? fork() : -1;
        if (child == 0)
            _exit(mincore(page, PAGE, &resident) != 0);
        if (child > 0)
            waitpid(child, &status, 0);
        printf("%s\n", letter != 'f' ? status ? "failed" : "done" : status ? "missing" : "there");
    }
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
