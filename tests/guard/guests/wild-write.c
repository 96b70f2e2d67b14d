/* tests/guard/guests/wild-write.c: two tasks, of which the second writes to memory of the first, of
 * the kind named, and the first says what became of it.
 *
 *   wild-write KIND [TIMES] */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "onespace.h"

enum { OLD = 41, NEW = 42, COUNT = 1000 };

static int in_globals[COUNT] = {OLD};
static __thread int in_thread_local[16] = {OLD};

static pthread_barrier_t has_begun, may_end;
static int *in_thread;

static void *hold_stack(void *kind)
{
    int here[COUNT] = {OLD};
    in_thread = strcmp(kind, "thread-stack") == 0 ? here : in_thread_local;
    pthread_barrier_wait(&has_begun);
    pthread_barrier_wait(&may_end);
    in_thread = NULL;
    return NULL;
}

static int *make(char *kind)
{
    pthread_t thread;
    int *memory = NULL;
    if (strcmp(kind, "heap") == 0)
        memory = malloc(COUNT * sizeof(int));
    else if (strcmp(kind, "mmap") == 0)
        memory = mmap(NULL, COUNT * sizeof(int), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (strcmp(kind, "shared") == 0)
        memory = mmap(NULL, COUNT * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
    else if (strcmp(kind, "globals") == 0)
        memory = in_globals;
    else if (strcmp(kind, "tls") == 0)
        memory = in_thread_local;
    else if (strncmp(kind, "thread-", 7) == 0) {
        pthread_barrier_init(&has_begun, NULL, 2);
        pthread_barrier_init(&may_end, NULL, 2);
        assert(pthread_create(&thread, NULL, hold_stack, kind) == 0);
        pthread_barrier_wait(&has_begun);
        memory = in_thread;
    }
    assert(memory && memory != MAP_FAILED);
    memory[0] = OLD;
    return memory;
}

static int offer(char *kind)
{
    int on_stack[COUNT] = {OLD};
    int *memory = strcmp(kind, "stack") == 0 ? on_stack : make(kind);
    int id, result = onespace_export("target", memory, sizeof(int));
    assert(result == 0);
    do /* until it has come, and gone */
        usleep(10000);
    while ((id = onespace_task(1)) >= 0 || id == -ESRCH);
    printf("0: %s\n", memory[0] == OLD ? "kept" : memory[0] == NEW ? "changed" : "?");
    return 0;
}

static int disturb(int times)
{
    void *memory;
    int id = onespace_task(0);
    while (id < 0) {
        usleep(10000);
        id = onespace_task(0);
    }
    int result = onespace_import(id, "target", &memory, NULL, 60000);
    assert(result == 0);
    printf("1: reads %d\n", *(int *)memory);
    fflush(stdout);
    for (int i = 0; i < times; i++)
        *(volatile int *)memory = NEW;
    printf("1: went on\n");
    return 0;
}

int main(int argc, char **argv)
{
    assert(argc > 1);
    return onespace_number() == 0 ? offer(argv[1]) : disturb(argc > 2 ? atoi(argv[2]) : 1);
}
