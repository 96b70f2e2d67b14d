/* tests/differential/guests/steps/proc.c: what a program reads of itself under /proc, without what
 * differs in each run: numbers of processes, inodes, times, and without what is the space's
 * (docs/programs.md). */
#include "steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char contents[1 << 20];

/* musl gets the number of open in a register, so that a task of musl opens the root's file
 * (docs/programs.md), but not by syscall(). */
static int open_own(const char *name)
{
#ifdef __GLIBC__
    return open(name, O_RDONLY | O_CLOEXEC);
#else
    return (int)syscall(SYS_open, name, O_RDONLY | O_CLOEXEC);
#endif
}

/* The length, or -1. */
static ssize_t read_file(const char *name)
{
    int fd = open_own(name);
    ssize_t length = 0, result = -1;
    if (fd < 0)
        return -1;
    while (length < (ssize_t)sizeof(contents) - 1 &&
           (result = read(fd, contents + length, sizeof(contents) - 1 - (size_t)length)) > 0)
        length += result;
    close(fd);
    contents[length] = '\0';
    return result < 0 ? -1 : length;
}

/* By its beginning: a variable that onespace run sets. */
static int is_set_for_tasks(const char *entry)
{
    static const char *const names[] = {"ONESPACE_", "PMIX_",  "MPIR_", "OMPI_",
                                        "UCX_",      "HWLOC_", "FI_"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* Without the variables that onespace run sets */
static uint32_t checksum_of_environment(ssize_t length)
{
    uint32_t sum = 0;
    for (char *entry = contents; entry < contents + length; entry += strlen(entry) + 1)
        if (!is_set_for_tasks(entry))
            sum = checksum(sum, entry, strlen(entry));
    return sum;
}

/* All of a file */
OPERATION(proc_file)
{
    static const char *const names[] = {
        "comm",      "limits",        "cmdline",     "environ",  "oom_score_adj",
        "setgroups", "timerslack_ns", "personality", "loginuid", "projid_map"};
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/%s", names[a[0] % 10]);
    ssize_t length = read_file(name);
    say(" %s", names[a[0] % 10]);
    if (length < 0)
        say_result(-1);
    else if (a[0] % 10 == 3)
        say(" %08x", checksum_of_environment(length));
    else
        say(" %zd %08x", length, checksum(0, contents, (size_t)length));
}

OPERATION(proc_status)
{
    static const char *const wanted[] = {"Name:",   "Umask:",      "Uid:",     "Gid:",
                                         "Groups:", "Ngid:",       "SigPnd:",  "ShdPnd:",
                                         "SigBlk:", "SigIgn:",     "SigCgt:",  "CapInh:",
                                         "CapPrm:", "NoNewPrivs:", "Seccomp:", "Cpus_allowed_list:",
                                         "SigQ:",   "TracerPid:"};
    const char *field = wanted[a[0] % 18];
    char *line = read_file("/proc/self/status") > 0 ? strstr(contents, field) : NULL;
    if (!line) {
        say_result(-1);
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    /* A task catches SIGBUS and SIGSEGV too, by the handler of the space. */
    if (strcmp(field, "SigCgt:") == 0)
        say(" SigCgt: %lx", strtoul(line + 7, NULL, 16) & ~0x440ul);
    else if (strcmp(field, "SigQ:") != 0)
        say(" %s", line);
}

/* The protection of each page of an arena, as maps has it */
OPERATION(proc_maps)
{
    const char *file = a[1] % 2 ? "/proc/self/maps" : "/proc/thread-self/maps";
    char pages[ARENA_PAGES + 1], *rest, *arena = arenas[a[0] % 2];
    uint32_t sum = 0;
    memset(pages, '.', sizeof(pages));
    pages[ARENA_PAGES] = '\0';
    if (read_file(file) < 0) {
        say_result(-1);
        return;
    }
    for (char *line = strtok_r(contents, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned long start, end;
        char flags[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, flags) != 3)
            continue;
        for (int page = 0; page < ARENA_PAGES; page++) {
            uintptr_t address = (uintptr_t)arena + (size_t)page * PAGE;
            if (address >= start && address < end)
                sum = checksum(sum, flags, 4),
                pages[page] = (char)('0' + (flags[0] == 'r') + 2 * (flags[1] == 'w') +
                                     4 * (flags[2] == 'x') + 8 * (flags[3] == 's'));
        }
    }
    say(" %s", pages);
}

/* The flags of each mapping in an arena, as smaps has them, page by page */
OPERATION(proc_smaps)
{
    char *rest, *arena = arenas[a[0] % 2];
    unsigned long start = 0, end = 0;
    uint32_t sum = 0;
    if (read_file("/proc/self/smaps") < 0) {
        say_result(-1);
        return;
    }
    for (char *line = strtok_r(contents, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2 && strchr(line, '-') < line + 13) {
            start = first;
            end = last;
        }
        if (strncmp(line, "VmFlags:", 8) != 0)
            continue;
        for (int page = 0; page < ARENA_PAGES; page++) {
            uintptr_t address = (uintptr_t)arena + (size_t)page * PAGE;
            if (address >= start && address < end)
                sum = checksum(checksum(sum, &page, sizeof(page)), line, strlen(line));
        }
    }
    say(" sum %08x", sum);
}

static int by_number(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* The open descriptors, and what the links say, without inodes */
OPERATION(proc_descriptors)
{
    int numbers[256], count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) {
        say_result(-1);
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory)) && count < 256;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            numbers[count++] = atoi(entry->d_name);
    closedir(directory);
    qsort(numbers, (size_t)count, sizeof(int), by_number);
    for (int i = 0; i < count; i++) {
        char name[64], link[256] = "";
        snprintf(name, sizeof(name), "/proc/self/fd/%d", numbers[i]);
        ssize_t length = readlink(name, link, sizeof(link) - 1);
        link[length > 0 ? length : 0] = '\0';
        char *last = strrchr(link, '/');
        link[strcspn(link, "[")] = '\0';
        say(" %d %s", numbers[i], numbers[i] < 3 ? "" : last && link[0] == '/' ? last : link);
    }
}

OPERATION(proc_fdinfo)
{
    char name[64];
    int fd = descriptor_of(a[0]);
    snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
    char *line = read_file(name) > 0 ? strstr(contents, "flags:") : NULL;
    if (!line) {
        say_result(-1);
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    say(" %s", line);
}

/* /proc/self/exe and cwd, with buffers that are too small or not there */
OPERATION(readlink)
{
    static const char *const names[] = {"/proc/self/exe", "/proc/thread-self/exe", "/proc/self/exe",
                                        "s0", "/proc/self/none"};
    char link[512];
    const char *name = names[a[0] % 5];
    size_t size = a[1] % 4 == 1 ? 3 : a[1] % 4 == 2 ? 0 : sizeof(link);
    memset(link, 0, sizeof(link));
    char *buffer = a[2] % 8 == 7 ? bad_pointer() : link;
    long result =
        a[2] / 8 % 2 ? readlink(name, buffer, size) : readlinkat(AT_FDCWD, name, buffer, size);
    say_result(result);
    if (result > 0) {
        char *last = strrchr(link, '/');
        say(" %s", last ? last : link);
    }
}

/* The program's own file, opened */
OPERATION(exe)
{
    char magic[5] = "";
    int fd = open_own(a[0] % 2 ? "/proc/self/exe" : "/proc/thread-self/exe");
    say_result(fd);
    if (fd < 0)
        return;
    (void)!read(fd, magic, 4);
    say(" %08x size %ld", checksum(0, magic, 4), (long)lseek(fd, 0, SEEK_END));
    close(fd);
}
