/* src/elf/linker.c: which options a dynamic linker takes when it is run as a command. */
#include <errno.h>
#include <string.h>

#include "elf/internal.h"

enum { CHUNK = 16384, OVERLAP = 16 };

/* Whether the bytes have the option as glibc has it in its text, "--argv0", or as musl has it,
 * "argv0", each a whole string. */
static bool has_option(const char *bytes, size_t size, const char *name)
{
    size_t length = strlen(name) + 1; /* with its end */
    const char *at = bytes;
    while ((at = memmem(at, size - (size_t)(at - bytes), name, length))) {
        size_t before = (size_t)(at - bytes);
        if ((before >= 1 && at[-1] == 0) || (before >= 2 && memcmp(at - 2, "--", 2) == 0))
            return true;
        at++;
    }
    return false;
}

int elf_read_linker(int fd, struct elf_info *info, struct elf_problem *problem)
{
    char bytes[CHUNK];
    bool takes_argv0 = false, takes_preload = false;
    ssize_t size;
    for (uint64_t at = 0; (size = elf_read_some(fd, bytes, sizeof(bytes), at)) > OVERLAP;
         at += (uint64_t)size - OVERLAP) {
        takes_argv0 = takes_argv0 || has_option(bytes, (size_t)size, "argv0");
        takes_preload = takes_preload || has_option(bytes, (size_t)size, "preload");
        if (takes_argv0 && takes_preload)
            break;
    }
    info->takes_options = takes_argv0 && takes_preload;
    return size < 0 ? elf_refuse_open(problem, (int)-size) : 0;
}
