/* tests/cmd/guests/debugged_root.c LIBRARY PROGRAM ARGUMENT...: a root with one task, which runs
 * the program. A line of its input makes it open the library; the end of its input ends it. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "onespace.h"

int main(int argc, char **argv)
{
    char line[64];
    int (*answer)(void);
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    int none[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3 || onespace_init() < 0 || pipe(none) != 0)
        return 1;
    struct onespace_fd_map fds[] = {{none[0], 0}, {1, 1}, {2, 2}};
    attr.fds = fds;
    attr.fd_count = 3;
    attr.flags = ONESPACE_SPAWN_CLOSE_FDS;
    if (onespace_spawn(argv[2], argv + 2, NULL, &attr) < 0)
        return 2;
    while (fgets(line, sizeof(line), stdin)) {
        void *library = dlopen(argv[1], RTLD_NOW);
        *(void **)&answer = library ? dlsym(library, "debugged_answer") : NULL;
        printf("%d\n", answer ? answer() : -1);
    }
    return 0;
}
