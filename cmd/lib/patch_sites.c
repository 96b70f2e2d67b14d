/* cmd/lib/patch_sites.c: see patch_sites.h. */
#include "cmd/lib/patch_sites.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/code/patch.h"
#include "elf/elf.h"

static const struct {
    const char *name;
    long nr;
    size_t field;
    int is_memory, is_optional;
} searched[] = {
    {"mmap", SYS_mmap, offsetof(struct patch_sites, mmap), 1, 0},
    {"munmap", SYS_munmap, offsetof(struct patch_sites, munmap), 1, 0},
    {"brk", SYS_brk, offsetof(struct patch_sites, brk), 1, 0},
    {"mremap", SYS_mremap, offsetof(struct patch_sites, mremap), 0, 0},
    {"rt_sigaction", SYS_rt_sigaction, offsetof(struct patch_sites, rt_sigaction), 0, 0},
    {"process_vm_readv", SYS_process_vm_readv, offsetof(struct patch_sites, process_vm_readv), 0,
     0},
    {"process_vm_writev", SYS_process_vm_writev, offsetof(struct patch_sites, process_vm_writev), 0,
     0},
    {"openat", SYS_openat, offsetof(struct patch_sites, openat), 0, 1},
};
enum { SEARCHED = sizeof(searched) / sizeof(searched[0]) };

enum { SPANS = 256 }; /* examined at once; what tasks keep of a file is fewer */

static unsigned *field(const struct patch_sites *sites, unsigned index)
{
    return (unsigned *)((char *)sites + searched[index].field);
}

static int place_of(long nr)
{
    for (unsigned i = 0; i < SEARCHED; i++)
        if (searched[i].nr == nr)
            return (int)i;
    return -1;
}

/* Counts those of the found system calls that can be patched. */
static void count_patched(const unsigned char *code, size_t size, struct arch_span *spans,
                          const int *places, unsigned count, struct patch_sites *sites)
{
    arch_reject_unsafe(code, size, spans, count);
    for (unsigned i = 0; i < count; i++)
        *field(sites, (unsigned)places[i]) += spans[i].length != 0;
}

static void search_code(const unsigned char *code, size_t size, struct patch_sites *sites)
{
    struct arch_patch_site site;
    struct arch_span spans[SPANS];
    int places[SPANS];
    unsigned count = 0;
    for (size_t at = arch_next_patch_site(code, size, 0, &site); at < size && at <= UINT32_MAX;
         at = arch_next_patch_site(code, size, at + 1, &site)) {
        int place = place_of(site.nr);
        if (place < 0)
            continue;
        spans[count] = (struct arch_span){(uint32_t)at, site.length, site.displaced};
        places[count++] = place;
        if (count == SPANS) {
            count_patched(code, size, spans, places, count, sites);
            count = 0;
        }
    }
    count_patched(code, size, spans, places, count, sites);
}

int patch_sites_count(const char *path, struct patch_sites *sites)
{
    struct elf_info info;
    struct patch_sites found = {0};
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int result = elf_read(fd, &info, NULL);
    void *file = MAP_FAILED;
    if (result == 0 && (fstat(fd, &stat) != 0 || (file = mmap(NULL, (size_t)stat.st_size, PROT_READ,
                                                              MAP_PRIVATE, fd, 0)) == MAP_FAILED))
        result = -errno;
    close(fd);
    if (result != 0)
        return result;
    for (unsigned i = 0; i < info.segment_count; i++) {
        const struct elf_segment *segment = &info.segments[i];
        /* elf_read has checked against the size; the file may have been truncated since. */
        if ((segment->prot & PROT_EXEC) &&
            segment->offset + segment->filesz <= (uint64_t)stat.st_size)
            search_code((unsigned char *)file + segment->offset, segment->filesz, &found);
    }
    munmap(file, (size_t)stat.st_size);
    *sites = found;
    return 0;
}

unsigned patch_sites_missing(const struct patch_sites *sites, int memory_only, char *text,
                             size_t size)
{
    unsigned missing = 0;
    size_t used = 0;
    text[0] = 0;
    for (unsigned i = 0; i < SEARCHED; i++) {
        if (*field(sites, i) > 0 || searched[i].is_optional ||
            (memory_only && !searched[i].is_memory))
            continue;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", missing ? ", " : "",
                                     searched[i].name);
        missing++;
    }
    return missing;
}

void patch_sites_libc_path(const char *interpreter, char *path, size_t size)
{
    char candidate[PATH_MAX];
    const char *slash = strrchr(interpreter, '/');
    int directory = slash ? (int)(slash - interpreter) : 0;
    char *real = NULL;
    if (snprintf(candidate, sizeof(candidate), "%.*s/libc.so.6", directory, interpreter) < PATH_MAX)
        real = realpath(candidate, NULL);
    snprintf(path, size, "%s", real ? real : interpreter);
    free(real);
}
