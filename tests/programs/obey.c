/* tests/programs/obey.c: a member that does what its standard input says, one line each, and
 * answers with one line: the result, and an address where there is one. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "onespace.h"

enum { PATIENCE_MS = 180000 }; /* for what hangs */

/* Looked up by others. The library exports all of its symbols, a program none but on demand. */
__attribute__((visibility("default"))) int exported_number = 4711;
__attribute__((visibility("default"))) int exported_function(int value);
static volatile int file_only_number = 815; /* named by .symtab alone */
__asm__(".globl absolute_number\n.set absolute_number, 0x1234");
__thread int thread_local_number = 1;

int exported_function(int value)
{
    return value + file_only_number + thread_local_number - 1;
}

static void *thread_stack(void *argument)
{
    char *volatile *place = argument;
    *place = (char *)__builtin_frame_address(0) - 16;
    while (*place)
        pause();
    return NULL;
}

static void *place_of(const char *what)
{
    static char *volatile on_thread;
    static char local_static;
    pthread_t thread;
    if (strcmp(what, "heap") == 0)
        return malloc(10);
    if (strcmp(what, "large") == 0)
        return malloc(100 << 20);
    if (strcmp(what, "break") == 0)
        return sbrk(4096);
    if (strcmp(what, "stack") == 0)
        return (char *)__builtin_frame_address(0) - 16;
    if (strcmp(what, "static") == 0)
        return &local_static;
    if (strcmp(what, "constant") == 0)
        return (void *)(uintptr_t) "constant";
    if (strcmp(what, "code") == 0)
        return (void *)(uintptr_t)exported_function;
    if (strcmp(what, "library") == 0)
        return dlsym(RTLD_DEFAULT, "qsort");
    if (strcmp(what, "thread-local") == 0)
        return &thread_local_number;
    if (strcmp(what, "mmap") == 0)
        return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(what, "outside") == 0)
        return mmap((void *)0x6ff000000000, 4096, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (strcmp(what, "thread") == 0) {
        pthread_create(&thread, NULL, thread_stack, (void *)&on_thread);
        while (!on_thread)
            usleep(1000);
        return (void *)on_thread;
    }
    return NULL;
}

static int *new_number(int value)
{
    int *number = malloc(sizeof(*number));
    if (number)
        *number = value;
    return number;
}

static int *number; /* what is exported and counted in */

static int many(const char *prefix, int count, int add)
{
    char name[ONESPACE_NAME_MAX + 1];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s%d", prefix, i);
        int result =
            add ? onespace_export(name, number + i, sizeof(*number)) : onespace_unexport(name);
        if (result < 0)
            return i ? i : result;
    }
    return count;
}

/* barriers COUNT: each round all see what all wrote before it. */
static int barriers(int count, int *shared)
{
    int ntasks = onespace_ntasks(), me = onespace_number();
    for (int round = 1; round <= count; round++) {
        shared[me * 16] = round;
        int result = onespace_barrier(PATIENCE_MS);
        if (result < 0)
            return result;
        for (int i = 0; i < ntasks; i++)
            if (shared[i * 16] != round)
                return -EILSEQ;
        if ((result = onespace_barrier(PATIENCE_MS)) < 0)
            return result;
    }
    return count;
}

/* spawn-with BYTES: spawns true with an argument of that length, and waits for its end. */
static int spawn_with(size_t bytes)
{
    char *argument = malloc(bytes + 1), *argv[] = {"true", argument, NULL};
    if (!argument)
        return -ENOMEM;
    memset(argument, 'x', bytes);
    argument[bytes] = 0;
    int id = onespace_spawn("true", argv, NULL, NULL);
    free(argument);
    return id < 0 ? id : onespace_wait(id, NULL, PATIENCE_MS);
}

static void obey(char *line)
{
    char *word = strtok(line, " "), *one = strtok(NULL, " "), *two = strtok(NULL, " "),
         *three = strtok(NULL, " ");
    void *address = NULL;
    size_t size = 0;
    int result = -ENOSYS;
    if (strcmp(word, "export") == 0)
        result = onespace_export(one, address = number = new_number(two ? atoi(two) : 0),
                                 sizeof(*number));
    else if (strcmp(word, "unexport") == 0)
        result = onespace_unexport(one);
    else if (strcmp(word, "export-many") == 0)
        result = many(one, atoi(two), 1);
    else if (strcmp(word, "unexport-many") == 0)
        result = many(one, atoi(two), 0);
    else if (strcmp(word, "import") == 0)
        result =
            onespace_import(atoi(one), two, &address, &size, three ? atoi(three) : PATIENCE_MS);
    else if (strcmp(word, "release") == 0)
        result = onespace_release(atoi(one));
    else if (strcmp(word, "lookup") == 0)
        result = onespace_lookup(atoi(one), two, &address, &size);
    else if (strcmp(word, "place") == 0)
        result = (address = place_of(one)) ? 0 : -EINVAL;
    else if (strcmp(word, "owner") == 0)
        result = onespace_owner((void *)(uintptr_t)strtoull(one, NULL, 16));
    else if (strcmp(word, "read") == 0)
        result = *(volatile int *)(uintptr_t)strtoull(one, NULL, 16);
    else if (strcmp(word, "write") == 0)
        result = *(volatile int *)(uintptr_t)strtoull(one, NULL, 16) = atoi(two);
    else if (strcmp(word, "open") == 0)
        result = (address = dlopen(one, RTLD_NOW)) ? 0 : -ENOENT;
    else if (strcmp(word, "barrier") == 0)
        result = onespace_barrier(atoi(one));
    else if (strcmp(word, "barriers") == 0)
        result = barriers(atoi(one), (int *)(uintptr_t)strtoull(two, NULL, 16));
    else if (strcmp(word, "self") == 0)
        result = onespace_self();
    else if (strcmp(word, "task") == 0)
        result = onespace_task(atoi(one));
    else if (strcmp(word, "kill") == 0)
        result = onespace_kill(atoi(one), atoi(two));
    else if (strcmp(word, "spawn-with") == 0)
        result = spawn_with((size_t)atol(one));
    else if (strcmp(word, "exit") == 0)
        exit(atoi(one));
    printf("%d %p\n", result, address);
}

int main(void)
{
    char line[4096];
    setvbuf(stdout, NULL, _IOLBF, 0);
    int result = onespace_init();
    if (result < 0)
        return printf("%d\n", result), 1;
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        obey(line);
    }
    return 0;
}
