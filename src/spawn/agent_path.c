/* src/spawn/agent_path.c: the files that tasks need, which are installed beside this library. */
#include "spawn/spawn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGENT "libonespace-agent.so"

/* The agent, by the name for --preload and by its real path. */
static char preload_path[PATH_MAX], real_path[PATH_MAX];

static int try_path(const char *directory, int length, const char *below)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof(path), "%.*s/%s" AGENT, length, directory, below);
    if (size >= (int)sizeof(path) || !realpath(path, real_path))
        return 0;
    if (!strpbrk(real_path, " :\t\n")) {
        memcpy(preload_path, real_path, sizeof(preload_path));
        return 1;
    }
    /* --preload splits at blanks and colons, so name the file by a descriptor that stays open. */
    int fd = open(real_path, O_PATH | O_CLOEXEC);
    if (fd >= 0)
        snprintf(preload_path, sizeof(preload_path), "/proc/%d/fd/%d", getpid(), fd);
    return fd >= 0;
}

/* Searches the library's directory, the library directory beside the command's directory, and below
 * each the directory `onespace` of a distribution that allows only files with a version in its
 * library directory. */
static void find_agent(void)
{
    static const char *const below[] = {"", "onespace/", "../lib/", "../" ONESPACE_LIBDIR "/",
                                        "../" ONESPACE_LIBDIR "/onespace/"};
    const char *given = secure_getenv("ONESPACE_AGENT"); /* code that tasks load */
    char self[PATH_MAX];
    Dl_info library;
    if (given && realpath(given, real_path)) {
        memcpy(preload_path, real_path, sizeof(preload_path));
        return;
    }
    if (!dladdr((void *)agent_path, &library) || !library.dli_fname ||
        !realpath(library.dli_fname, self) || !strstr(self, "libonespace")) {
        ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1); /* the command */
        self[size > 0 ? size : 0] = 0;
    }
    const char *slash = strrchr(self, '/');
    for (unsigned i = 0; slash && i < sizeof(below) / sizeof(below[0]); i++)
        if (try_path(self, (int)(slash - self), below[i]))
            return;
}

const char *agent_path(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_agent);
    return preload_path[0] ? preload_path : NULL;
}

void agent_sibling_path(const char *name, char *path, size_t size)
{
    const char *slash = agent_path() ? strrchr(real_path, '/') : NULL;
    if (!slash ||
        snprintf(path, size, "%.*s/%s", (int)(slash - real_path), real_path, name) >= (int)size ||
        access(path, R_OK) != 0)
        path[0] = 0;
}

static void find_python_start(void)
{
    char path[PATH_MAX];
    agent_sibling_path("onespace/python", path, sizeof(path));
    elf_set_python_start(path);
}

int resolve_program(int dirfd, const char *file, char *const argv[], const char *path,
                    struct elf_program *program, struct elf_problem *problem)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_python_start);
    return elf_resolve(dirfd, file, argv, path, program, problem);
}
