/* src/spawn/resolve.c: see resolve.h. */
#include "spawn/spawn.h"

#include <pthread.h>

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
