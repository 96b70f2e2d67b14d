/* tests/interpose/guests/own_files.c: what a program finds of itself in /proc. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/scene.h"

static char bytes[1 << 20];

/* Reads the whole file by pieces: its size, or -1. */
static ssize_t read_all(int fd)
{
    ssize_t size = 0, got;
    while ((got = read(fd, bytes + size, 1000)) > 0)
        size += got;
    close(fd);
    return got < 0 || fd < 0 ? -1 : size;
}

static void say(const char *how, ssize_t size)
{
    printf("%s %zd:", how, size);
    for (ssize_t i = 0; i < size; i++)
        putchar(bytes[i] ? bytes[i] : '|');
    putchar('\n');
}

/* Arguments and environment, by all ways to open. */
SCENE(strings)
{
    char by_pid[64];
    say("open", read_all(open("/proc/self/cmdline", O_RDONLY)));
    say("openat", read_all(openat(AT_FDCWD, "/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC)));
    snprintf(by_pid, sizeof(by_pid), "/proc/%d/cmdline", getpid());
    FILE *file = fopen(by_pid, "r");
    say("fopen", file ? (ssize_t)fread(bytes, 1, sizeof(bytes), file) : -1);
    setenv("LATER", "is not in the file", 1);
    say("environ", read_all(open("/proc/self/environ", O_RDONLY)));
    return 0;
}

/* In a child, that has the same. */
SCENE(child)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(play_strings(argc, argv));
    waitpid(child, &status, 0);
    return status;
}

SCENE(auxv)
{
    static const unsigned long types[] = {AT_ENTRY, AT_RANDOM, AT_PHDR, AT_PHNUM, AT_EXECFN};
    ssize_t size = read_all(open("/proc/self/auxv", O_RDONLY));
    const unsigned long *entry = (const unsigned long *)(void *)bytes;
    for (; size > 0 && entry[0] != AT_NULL; entry += 2)
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
            if (entry[0] == types[i] && types[i] != AT_EXECFN)
                printf("%lu %d\n", types[i], entry[1] == getauxval(types[i]));
    printf("ends %d\n", (const char *)(entry + 2) == bytes + size);
    return 0;
}

/* prctl(PR_GET_AUXV), with room for all, for a part and for nothing, and with bad arguments. */
SCENE(auxv_call)
{
    enum { GET_AUXV = 0x41555856 }; /* Linux 6.4 */
    unsigned long all[256], part[4], *entry = all;
    memset(all, 0xff, sizeof(all));
    memset(part, 0xff, sizeof(part));
    long size = prctl(GET_AUXV, all, sizeof(all), 0L, 0L);
    if (size < 0)
        return printf("no %s\n", strerror(errno)), 0;
    for (; entry[0] != AT_NULL; entry += 2)
        if (entry[0] == AT_HWCAP) /* glibc's getauxval has another */
            printf("of the CPU %lx\n", entry[1]);
        else if (entry[1] != getauxval(entry[0]))
            printf("%lu is not that of getauxval\n", entry[0]);
    printf("entries %d\n", entry - all > 20);
    while (entry < all + size / 8 && *entry == 0)
        entry++;
    printf("then zeros %d and nothing else %d\n", entry == all + size / 8, *entry == ~0UL);
    printf("a part %d", prctl(GET_AUXV, part, 24L, 0L, 0L) == size);
    printf(" %d %d\n", memcmp(part, all, 24), part[3] == ~0UL);
    printf("nothing %d\n", prctl(GET_AUXV, NULL, 0L, 0L, 0L) == size);
    printf("fault %d", prctl(GET_AUXV, (void *)16, 100L, 0L, 0L));
    printf(" %s\n", strerror(errno));
    printf("more arguments %d", prctl(GET_AUXV, part, 24L, 1L, 0L));
    printf(" %s\n", strerror(errno));
    return 0;
}

SCENE(exe)
{
    struct stat opened, named;
    int fd = open("/proc/self/exe", O_RDONLY);
    int path = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    if (fd < 0 || stat(argv[-1], &named) != 0 || fstat(fd, &opened) != 0)
        return 1;
    printf("same %d\n", opened.st_dev == named.st_dev && opened.st_ino == named.st_ino);
    if (path < 0 || fstat(path, &opened) != 0)
        return 2;
    printf("same %d\n", opened.st_dev == named.st_dev && opened.st_ino == named.st_ino);
    printf("close on exec %d %d\n", fcntl(fd, F_GETFD), fcntl(path, F_GETFD));
    return 0;
}

static void say_error(const char *what, const char *path, int flags)
{
    int fd = open(path, flags);
    printf("%s %d %s\n", what, fd, strerror(errno));
}

/* Descriptors and errors are as the kernel gives them. */
SCENE(errors)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), next = dup(fd);
    printf("lowest numbers %d, close on exec %d\n", next - fd, fcntl(fd, F_GETFD));
    printf("again %d\n", lseek(fd, 0, SEEK_SET) == 0 && read(fd, bytes, 4) == 4);
    say_error("write", "/proc/self/auxv", O_WRONLY);
    say_error("none", "/proc/self/environs", O_RDONLY);
    say_error("fault", (const char *)(uintptr_t)16, O_RDONLY);
    return 0;
}

/* ---- Mappings ---- */

static void *block; /* of the heap */
static int counts_lower;

/* The addresses known to the scene that a file lists. */
struct listed {
    int main_code, stack, heap, mapping, vdso, other, lower, count;
    long rss_kib;
};

static void look_at(struct listed *listed, const char *line, uintptr_t other, char *mapping)
{
    unsigned long from, to;
    int place = 0;
    if (sscanf(line, "%lx-%lx %n", &from, &to, &place) != 2)
        return;
#define HAS(address) ((uintptr_t)(address) >= from && (uintptr_t)(address) < to)
    listed->count++;
    listed->main_code += HAS(look_at);
    listed->stack += HAS(listed) && strstr(line, "[stack]");
    listed->heap += HAS(block) && strstr(line, "[heap]");
    listed->mapping += HAS(mapping);
    listed->lower += counts_lower && from < (uintptr_t)look_at && strstr(line, " rw-p ");
    listed->vdso += strstr(line, "[vdso]") != NULL;
    listed->other += other && HAS(other);
#undef HAS
}

/* Reads by pieces, which end anywhere in a line. */
static struct listed read_mappings(int fd, uintptr_t other, char *mapping)
{
    struct listed listed = {0};
    ssize_t size = 0, got;
    long kib;
    while ((got = read(fd, bytes + size, 997)) > 0)
        size += got;
    bytes[size < (ssize_t)sizeof(bytes) ? size : (ssize_t)sizeof(bytes) - 1] = 0;
    for (char *line = bytes, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        look_at(&listed, line, other, mapping);
        if (sscanf(line, "Rss: %ld kB", &kib) == 1)
            listed.rss_kib += kib;
    }
    return listed;
}

/* mappings ADDRESS [lower]: what the files say of this program's memory, and of that address,
 * another one's; with `lower` also how many writable mappings lie below its code. A static program
 * has some there as a process, too. */
SCENE(mappings)
{
    static const char *const names[] = {"self/maps",         "thread-self/maps", "%d/maps",
                                        "self/task/%d/maps", "%d/task/%d/maps",  "self/smaps"};
    uintptr_t other = argc > 1 ? strtoul(argv[1], NULL, 16) : 0;
    char *mapping = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long counts[6] = {0};
    block = malloc(16);
    counts_lower = argc > 2;
    memset(bytes, 1, sizeof(bytes));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64] = "/proc/", name[64];
        snprintf(name, sizeof(name), names[i], getpid(), getpid());
        int fd = open(strcat(path, name), O_RDONLY);
        struct listed is = read_mappings(fd, other, mapping);
        printf("%s: main %d stack %d heap %d mapping %d vdso %d other %d lower %d", names[i],
               is.main_code, is.stack, is.heap, is.mapping, is.vdso, is.other, is.lower);
        lseek(fd, 0, SEEK_SET);
        printf(" again %d\n", read_mappings(fd, other, mapping).main_code);
        counts[i] = is.count;
        close(fd);
    }
    printf("as many in smaps %d\n", labs(counts[5] - counts[0]) < 3);
    long rss, sum, tries = 0;
    do { /* pages may come and go between the two */
        int all = open("/proc/self/smaps", O_RDONLY),
            rollup = open("/proc/self/smaps_rollup", O_RDONLY);
        rss = read_mappings(all, 0, mapping).rss_kib;
        sum = read_mappings(rollup, 0, mapping).rss_kib;
        close(all);
        close(rollup);
    } while (labs(rss - sum) >= 512 && ++tries < 10);
    long lines = 0;
    FILE *numa = fopen("/proc/self/numa_maps", "r"); /* as the kernel was configured */
    for (int c; numa && (c = getc(numa)) != EOF;)
        lines += c == '\n';
    printf("as many in numa_maps %d\n", !numa || labs(lines - counts[0]) < 5);
    printf("rolled up %d\n", rss > 1024 && labs(rss - sum) < 512);
    return 0;
}

/* serve: memory of another program. */
SCENE(serve)
{
    printf("%lx\n", (unsigned long)(uintptr_t)malloc(100000));
    while (getchar() != EOF)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
