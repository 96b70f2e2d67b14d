/* tests/programs/plain.c: what any libc can do; built with glibc, statically, and with musl. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "scene.h"

static int counter = 5; /* relocated and writable: each task has its own */

static int errno_first = -1, errno_in_main = -1;

__attribute__((constructor)) static void note_errno(void)
{
    errno_first = errno;
}

SCENE(errno)
{
    printf("errno %d, then %d\n", errno_first, errno_in_main);
    return 0;
}

SCENE(hello)
{
    counter++;
    printf("hello %d\n", counter);
    return 3;
}

static int allocate(unsigned seed)
{
    unsigned char *pieces[64] = {0};
    for (unsigned round = 0; round < 3000; round++) {
        unsigned at = (seed + round * 17) % 64;
        size_t size = 16 + (size_t)(round * 7919 % 200000);
        if (pieces[at] && (pieces[at][0] != at || pieces[at][15] != at))
            return 1;
        free(pieces[at]);
        if (!(pieces[at] = malloc(size)))
            return 1;
        memset(pieces[at], (int)at, size);
    }
    for (unsigned i = 0; i < 64; i++)
        free(pieces[i]);
    return 0;
}

SCENE(malloc)
{
    int wrong = allocate(1);
    printf("wrong %d\n", wrong);
    return wrong;
}

static void *allocating_thread(void *argument)
{
    return (void *)(intptr_t)allocate((unsigned)(uintptr_t)argument);
}

SCENE(threads)
{
    pthread_t thread[4];
    intptr_t wrong = 0;
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, allocating_thread, (void *)i) != 0)
            return 1;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(thread[i], &result);
        wrong += (intptr_t)result;
    }
    printf("wrong %ld\n", (long)wrong);
    return wrong != 0;
}

/* Until its standard input ends. */
SCENE(wait)
{
    char byte;
    printf("waiting\n");
    return read(0, &byte, 1) == 0 ? counter - 5 : 1;
}

/* Started in place of main. The argument lies in the spawner's memory. */
int begin(void *argument);
int begin(void *argument)
{
    printf("begun with %s, counter %d\n", (const char *)argument, ++counter);
    return 9;
}

static void on_exit_say(void)
{
    printf("at exit\n");
}

__attribute__((used)) static int begin_hidden(void *argument)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    atexit(on_exit_say);
    return allocate((unsigned)(uintptr_t)argument);
}

int main(int argc, char **argv)
{
    errno_in_main = errno;
    return play_scene(argc, argv);
}
