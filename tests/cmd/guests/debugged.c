/* tests/cmd/guests/debugged.c: something to debug. Says "ready", then every 10 ms calls work(),
 * maps and unmaps memory, until its input ends: then it prints "done". FILE     calls found() once
 * that file exists, in place of work() LIBRARY  (*.so) a line of input makes it open that library
 * and call its debugged_answer() crash    a line of input makes it crash */
#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int debugged_value = 4711;
int *debugged_shared, *debugged_low; /* in memory that tasks may share, and below the registry */
static const char *what = "";

static int work(int step)
{
    debugged_value += step; /* line: work */
    return debugged_value;
}

static void found(void)
{
    what = ""; /* line: found */
}

static void map_elsewhere(void)
{
    const uintptr_t low = UINT64_C(3) << 32;
    int fd = memfd_create("debugged", MFD_CLOEXEC);
    if (ftruncate(fd, 4096) == 0)
        debugged_shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    debugged_low = mmap((void *)low, 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    *debugged_shared = 4712;
    *debugged_low = 4713;
}

static void act(void)
{
    int (*answer)(void);
    if (strcmp(what, "crash") == 0)
        map_elsewhere();
    if (strcmp(what, "crash") == 0)
        *(volatile int *)8 = 1; /* line: crash */
    void *library = dlopen(what, RTLD_NOW);
    *(void **)&answer = library ? dlsym(library, "debugged_answer") : NULL;
    printf("%d\n", answer ? answer() : -1);
    what = "";
}

int main(int argc, char **argv)
{
    struct pollfd input = {0, POLLIN, 0};
    char line[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1)
        what = argv[1];
    printf("ready\n");
    for (;;) {
        munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
        if (*what == '/' && !strstr(what, ".so") && access(what, F_OK) == 0)
            found();
        else
            work(0);
        if (poll(&input, 1, 10) != 1)
            continue;
        if (read(0, line, sizeof(line)) <= 0)
            break;
        act();
    }
    printf("done %d\n", debugged_value);
    return 0;
}
