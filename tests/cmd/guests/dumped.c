/* tests/cmd/guests/dumped.c [MIB [stay] | copy]: what the core of a task must show. Four threads:
 * main waits for input in poll(), two wait in read(), one counts. Prints where some memory lies,
 * then "ready"; MIB is how much it touches beside. At the end of its input it prints "done", unless
 * a system call came back before its time. With "copy" main copies memory for ever by
 * process_vm_readv() instead. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

int dumped_value = 4711;
static char *dumped_text;
static __thread int dumped_own = 1;
static volatile long dumped_count;
static int never[2];

static void *wait_in_read(void *argument)
{
    char byte;
    dumped_own = (int)(long)argument;
    if (read(never[0], &byte, 1) >= 0 || errno == EINTR) /* line: read */
        abort();
    return NULL;
}

static void *count(void *argument)
{
    (void)argument;
    for (;;)
        dumped_count++;
    return NULL;
}

static char *map(const char *what, int flags)
{
    char *place = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    printf("%s %p\n", what, (void *)place);
    return place;
}

static void make_memory(size_t mib)
{
    char *private = map("private", MAP_PRIVATE), *shared = map("shared", MAP_SHARED);
    char *secret = map("secret", MAP_PRIVATE), *hidden = map("hidden", MAP_PRIVATE);
    dumped_text = strdup("in the heap");
    strcpy(private + PAGE, "touched");
    strcpy(shared + 40 * PAGE, "shared");
    strcpy(secret, "secret");
    madvise(secret, PAGES * PAGE, MADV_DONTDUMP);
    strcpy(hidden, "hidden");
    mprotect(hidden, PAGES * PAGE, PROT_NONE);
    if (mib)
        memset(mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1,
               mib << 20);
}

/* Another thread says it when main is in the loop. */
static void *say_ready(void *argument)
{
    (void)argument;
    while (dumped_count < 2)
        usleep(1000);
    printf("ready %d\n", (int)getpid());
    return NULL;
}

static void copy(void)
{
    static char from[16 << 20], to[16 << 20];
    pid_t self = getpid();
    pthread_t thread;
    memset(from, 1, sizeof(from));
    pthread_create(&thread, NULL, say_ready, NULL);
    for (;;) {
        struct iovec local = {to, sizeof(to)}, remote = {from, sizeof(from)};
        process_vm_readv(self, &local, 1, &remote, 1, 0); /* line: copy */
        dumped_count++;
    }
}

int main(int argc, char **argv)
{
    struct pollfd input = {0, POLLIN, 0};
    pthread_t threads[3];
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_memory(argc > 1 ? (size_t)atoi(argv[1]) : 0);
    if (argc > 1 && strcmp(argv[1], "copy") == 0)
        copy();
    if (pipe(never) != 0)
        return 1;
    pthread_create(&threads[0], NULL, wait_in_read, (void *)100);
    pthread_create(&threads[1], NULL, wait_in_read, (void *)101);
    pthread_create(&threads[2], NULL, count, NULL);
    while (dumped_count == 0)
        usleep(1000);
    printf("ready %d\n", (int)getpid());
    if (argc > 2)
        for (;;)
            pause();                  /* without reading what another task gets */
    int result = poll(&input, 1, -1); /* line: poll */
    printf(result == 1 ? "done\n" : "came back\n");
    return result != 1;
}
