/* src/pip/print.c: pip/pip_util.h: what a program shows of itself while it is debugged. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pip/pip_util.h>
#include <stdlib.h>
#include <unistd.h>

void pip_print_maps(void)
{
    char text[4096];
    ssize_t length;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0)
        return;
    while ((length = read(maps, text, sizeof(text))) > 0)
        if (write(STDERR_FILENO, text, (size_t)length) < 0)
            break;
    close(maps);
}

void pip_print_fd(FILE *file, int fd)
{
    char path[64], target[4096];
    int flags = fcntl(fd, F_GETFD);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (flags < 0 || length < 0)
        return;
    target[length] = 0;
    fprintf(file, "%d %s -> %s%s\n", (int)getpid(), path, target,
            flags & FD_CLOEXEC ? " [COE]" : "");
}

void pip_print_fds(FILE *file)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    if (!directory)
        return;
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            pip_print_fd(file, atoi(entry->d_name));
    closedir(directory);
}

void pip_check_addr(char *tag, void *address)
{
    char own_tag[32];
    char *line = NULL;
    size_t size = 0;
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!tag) {
        snprintf(own_tag, sizeof(own_tag), "%d", (int)getpid());
        tag = own_tag;
    }
    while (maps && !found && getline(&line, &size, maps) > 0) {
        char *end;
        uintptr_t from = strtoumax(line, &end, 16),
                  to = *end == '-' ? strtoumax(end + 1, NULL, 16) : 0;
        found = from <= (uintptr_t)address && (uintptr_t)address < to;
        if (found)
            fprintf(stderr, "%s %p: %s", tag, address, line);
    }
    if (!found)
        fprintf(stderr, "%s %p: not mapped\n", tag, address);
    free(line);
    if (maps)
        fclose(maps);
}

static int print_library(struct dl_phdr_info *info, size_t size, void *file)
{
    (void)size;
    fprintf(file, "%d %#" PRIxPTR " %s\n", (int)getpid(), (uintptr_t)info->dlpi_addr,
            info->dlpi_name[0] ? info->dlpi_name : "(the program)");
    return 0;
}

void pip_print_loaded_solibs(FILE *file)
{
    dl_iterate_phdr(print_library, file ? file : stderr);
}

void pip_print_dsos(void)
{
    pip_print_loaded_solibs(stderr);
}
