/* tests/interpose/guests/shared.c: maps and unmaps what its standard input says, one line each, and
 * answers with one line: an address, a number, or the name of an error. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 6 };

static int fd = -1;

static long number(const char *word)
{
    return (long)strtoul(word, NULL, 0);
}

static void *address(const char *word)
{
    return (void *)strtoul(word, NULL, 16);
}

static int protection(const char *word)
{
    return strcmp(word, "rw") == 0  ? PROT_READ | PROT_WRITE
           : strcmp(word, "r") == 0 ? PROT_READ
                                    : 0;
}

/* open PATH r|rw SIZE: the file for `map`; with a size it is made */
static long run_open(char **words)
{
    int access = strcmp(words[2], "r") == 0 ? O_RDONLY : O_RDWR;
    close(fd);
    fd = open(words[1], access | (*words[3] ? O_CREAT : 0), 0600);
    return fd < 0 || (*words[3] && ftruncate(fd, number(words[3])) != 0) ? -1 : 0;
}

/* memory SIZE seal|: a memory file, sealed against new mappings that can write */
static long run_memory(char **words)
{
    close(fd);
    fd = memfd_create("shared", MFD_ALLOW_SEALING);
    long result = ftruncate(fd, number(words[1]));
    if (result == 0 && *words[2])
        result = fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    return result;
}

/* map SIZE r|rw OFFSET */
static long run_map(char **words)
{
    return (long)mmap(NULL, (size_t)number(words[1]), protection(words[2]), MAP_SHARED, fd,
                      number(words[3]));
}

/* over ADDRESS SIZE fixed|noreplace: anonymous memory at an address */
static long run_over(char **words)
{
    int flags = strcmp(words[3], "fixed") == 0 ? MAP_FIXED : MAP_FIXED_NOREPLACE;
    return (long)mmap(address(words[1]), (size_t)number(words[2]), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static long run_unmap(char **words)
{
    return munmap(address(words[1]), (size_t)number(words[2]));
}

/* In a forked child, whose memory is its own. */
static long run_fork_unmap(char **words)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(munmap(address(words[1]), (size_t)number(words[2])) == 0 &&
                      mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED
                  ? 7
                  : 1);
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

static long run_protect(char **words)
{
    return mprotect(address(words[1]), (size_t)number(words[2]), protection(words[3]));
}

/* remap ADDRESS OLD NEW FLAGS NEW-ADDRESS */
static long run_remap(char **words)
{
    return (long)mremap(address(words[1]), (size_t)number(words[2]), (size_t)number(words[3]),
                        (int)number(words[4]), address(words[5]));
}

static long run_get(char **words)
{
    return *(volatile unsigned char *)address(words[1]);
}

static long run_put(char **words)
{
    return *(volatile unsigned char *)address(words[1]) = (unsigned char)number(words[2]);
}

/* Whether something is mapped there, without touching it. */
static long run_is_mapped(char **words)
{
    unsigned char pages;
    return mincore(address(words[1]), 4096, &pages) == 0;
}

static long run_attach(char **words)
{
    return (long)shmat((int)number(words[1]), NULL, strcmp(words[2], "r") == 0 ? SHM_RDONLY : 0);
}

/* reattach ID ADDRESS: over what is there */
static long run_reattach(char **words)
{
    return (long)shmat((int)number(words[1]), address(words[2]), SHM_REMAP);
}

static long run_detach(char **words)
{
    return shmdt(address(words[1]));
}

static long run_attached(char **words)
{
    struct shmid_ds segment;
    return shmctl((int)number(words[1]), IPC_STAT, &segment) == 0 ? (long)segment.shm_nattch : -1;
}

/* ---- churn ---- */

enum { PAGE = 4096, FILES = 8 };

/* Sizes in different windows, some of them neighbours. */
static const size_t churn_pages[FILES] = {3, 3, 1, 4, 7, 3, 20, 2};
static unsigned char *churned[FILES];

static size_t churn_size(int i)
{
    return churn_pages[i] * PAGE;
}

static void check_bytes(int i)
{
    for (size_t page = 0; page < churn_pages[i]; page++)
        if (churned[i][page * PAGE] != i)
            exit(1);
    churned[i][1] = (unsigned char)i;
}

/* Unmaps this and what the task has mapped behind it, in one call that covers what others have
 * mapped there, too. */
static int unmap_with_neighbours(int i)
{
    unsigned char *start = churned[i], *end = start + churn_size(i) + 8 * (size_t)PAGE;
    for (int again = 1; again;) {
        again = 0;
        for (int j = 0; j < FILES; j++)
            if (churned[j] && churned[j] >= start && churned[j] < end) {
                unsigned char *its_end = churned[j] + churn_size(j);
                end = its_end > end ? its_end : end;
                churned[j] = NULL;
                again = 1;
            }
    }
    return munmap(start, (size_t)(end - start));
}

static int move_and_unmap(int i)
{
    size_t size = churn_size(i), new_size = size + PAGE;
    void *moved = mremap(churned[i], size, new_size, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED && errno == EFAULT) { /* a page is protected by itself (6) */
        moved = churned[i];
        new_size = size;
    }
    churned[i] = NULL;
    return moved == MAP_FAILED ? -1 : munmap(moved, new_size);
}

static int change_at_random(int i, unsigned action)
{
    switch (action) {
    case 0:
    case 1:
    case 2: {
        void *start = churned[i];
        churned[i] = NULL;
        return munmap(start, churn_size(i));
    }
    case 3:
        return unmap_with_neighbours(i);
    case 4:
        return move_and_unmap(i);
    case 5:
        return mprotect(churned[i], churn_size(i), PROT_READ | PROT_WRITE);
    case 6: /* refused, or it is this task's alone */
        mprotect(churned[i] + PAGE, PAGE, PROT_READ);
        return 0;
    default:
        return 0;
    }
}

/* churn PATHS COUNT SEED: maps, writes, unmaps and changes the files 0 to COUNT - 1 at random until
 * it is killed or its input ends. A wrong byte ends it with 1: each file's bytes are its number. */
static long run_churn(char **words)
{
    unsigned seed = (unsigned)number(words[3]);
    int files[FILES];
    for (int i = 0; i < number(words[2]); i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s%d", words[1], i);
        if ((files[i] = open(path, O_RDWR)) < 0)
            return -1;
    }
    puts("churns");
    for (;;) {
        int i = (int)((unsigned)rand_r(&seed) % (unsigned)number(words[2]));
        if (!churned[i]) {
            void *start =
                mmap(NULL, churn_size(i), PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
            if (start == MAP_FAILED)
                return -1;
            churned[i] = start;
        }
        check_bytes(i);
        if (change_at_random(i, (unsigned)rand_r(&seed) % 8) != 0)
            return -1;
    }
}

static const struct command {
    const char *name;
    long (*run)(char **words);
    int is_address;
} commands[] = {
    {"open", run_open, 0},       {"memory", run_memory, 0},       {"map", run_map, 1},
    {"over", run_over, 1},       {"unmap", run_unmap, 0},         {"fork-unmap", run_fork_unmap, 0},
    {"protect", run_protect, 0}, {"remap", run_remap, 1},         {"get", run_get, 0},
    {"put", run_put, 0},         {"is-mapped", run_is_mapped, 0}, {"attach", run_attach, 1},
    {"detach", run_detach, 0},   {"reattach", run_reattach, 1},   {"attached", run_attached, 0},
    {"churn", run_churn, 0},
};

static void obey(char **words)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, words[0]) != 0)
            continue;
        errno = 0;
        long result = commands[i].run(words);
        if (result == -1)
            printf("%s\n", strerrorname_np(errno));
        else
            printf(commands[i].is_address ? "%lx\n" : "%ld\n", result);
        return;
    }
    printf("no command %s\n", words[0]);
}

int main(void)
{
    char line[4096];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin)) {
        char *words[WORDS], *rest = line, empty[] = "";
        for (int i = 0; i < WORDS; i++) {
            words[i] = strtok_r(i ? NULL : line, " \n", &rest);
            if (!words[i])
                words[i] = empty;
        }
        obey(words);
    }
    return 0;
}
