/* ending HOW: ends in the named way. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *how = "";

static volatile int *volatile nowhere = (int *)8;

/* Arguments are handed to constructors by glibc. */
__attribute__((constructor)) static void construct(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "constructor") == 0)
        exit(21);
    if (argc > 1 && strcmp(argv[1], "constructor-crash") == 0)
        *nowhere = 1;
}

static void in_exit_handler(void)
{
    if (strcmp(how, "atexit-crash") == 0)
        *nowhere = 1;
}

static int overflow(int depth)
{
    volatile char frame[256];
    frame[depth % 256] = (char)depth;
    return depth > 0 ? overflow(depth + 1) + frame[depth % 256] : 0;
}

static void *in_thread(void *argument)
{
    (void)argument;
    if (strcmp(how, "thread-crash") == 0)
        *nowhere = 1;
    if (strcmp(how, "thread-exit") == 0)
        exit(22);
    if (strcmp(how, "thread-exec") == 0)
        execl("/bin/sh", "sh", "-c", "exit 23", (char *)NULL);
    sleep(600);
    return NULL;
}

static void *last(void *argument)
{
    (void)argument;
    usleep(100000);
    exit(24);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    how = argc > 1 ? argv[1] : "";
    atexit(in_exit_handler);
    if (strcmp(how, "crash") == 0)
        *nowhere = 1;
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "overflow") == 0)
        return overflow(1);
    if (strcmp(how, "exec") == 0)
        execl("/bin/sh", "sh", "-c", "exit 25", (char *)NULL);
    if (strcmp(how, "double-free") == 0) {
        char *block = malloc(2000), *other = malloc(2000);
        free(block);
        free(block);
        free(other);
    }
    if (strcmp(how, "jump") == 0)
        ((void (*)(void))nowhere)();
    if (strcmp(how, "bus") == 0) {
        FILE *file = tmpfile();
        int *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
        return *page;
    }
    if (strcmp(how, "quick-exit") == 0)
        quick_exit(26);
    if (strcmp(how, "underscore-exit") == 0)
        _exit(27);
    pthread_create(&thread, NULL, strcmp(how, "main-thread-ends") == 0 ? last : in_thread, NULL);
    if (strcmp(how, "main-thread-ends") == 0)
        pthread_exit(NULL);
    if (strcmp(how, "exit-with-threads") == 0) {
        usleep(50000);
        return 28;
    }
    if (strncmp(how, "thread", 6) == 0)
        sleep(600);
    return strcmp(how, "atexit-crash") == 0 ? 0 : 29;
}
