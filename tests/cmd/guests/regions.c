/* tests/cmd/guests/regions.c: has a region of every kind that `onespace map` tells apart. Prints a
 * line with an address of each and its kind, says "ready", and waits for the end of its input.
 *   regions FILE   maps FILE
 *   regions huge   prints "huge" with memory for which it asked huge pages */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_SIZE = 8 << 20 };

static int initialised = 1;
static char uninitialised[1 << 20];
static sem_t printed;

static void tell(const char *kind, volatile void *address)
{
    printf("%s %p\n", kind, (void *)address);
}

static void *thread(void *unused)
{
    int local;
    tell("thread stack", &local);
    tell("heap", malloc(1000)); /* the first thread but main gets a heap of its own */
    sem_post(&printed);
    pause();
    return unused;
}

static void tell_kinds(const char *file)
{
    int local, fd = open(file, O_RDWR), memory = memfd_create("mine", 0);
    int segment = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600), both = PROT_READ | PROT_WRITE;
    if (fd < 0 || memory < 0 || segment < 0 || ftruncate(memory, PAGE) != 0)
        exit(3);
    tell("program", &initialised);
    tell("program", uninitialised + sizeof(uninitialised) / 2);
    tell("library", (void *)printf);
    tell("library", stdout); /* data of libc */
    tell("heap", malloc(1000));
    tell("stack", &local);
    tell("anonymous", mmap(NULL, PAGE, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    tell("anonymous", mmap((void *)0x7100000000, PAGE, both,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    tell("shared", mmap(NULL, PAGE, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    tell("shared", mmap(NULL, PAGE, both, MAP_SHARED, memory, 0));
    tell("shared", shmat(segment, NULL, 0));
    tell("file", mmap(NULL, PAGE, both, MAP_PRIVATE, fd, 0));
    tell("file", mmap(NULL, PAGE, both, MAP_SHARED, fd, 0));
    shmctl(segment, IPC_RMID, NULL);
    pthread_t other;
    sem_init(&printed, 0, 0);
    pthread_create(&other, NULL, thread, NULL);
    sem_wait(&printed);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "huge") == 0) {
        char *memory =
            mmap(NULL, HUGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, HUGE_SIZE, MADV_HUGEPAGE);
        memset(memory, 1, HUGE_SIZE);
        tell("huge", memory);
    } else if (argc > 1) {
        tell_kinds(argv[1]);
    }
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
