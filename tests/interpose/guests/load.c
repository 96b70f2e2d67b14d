/* tests/interpose/guests/load.c: threads that call mmap, munmap and what a library offers, while
 * that library, whose calls are patch sites, is loaded and unloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, LOADS = 50, SIZE = 1 << 14 };

/* The library's, while it is there: threads enter it under the lock for reading. */
__attribute__((visibility("default"))) long (*volatile entered)(unsigned long size);

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int done;
static atomic_long mapped, entries, failed;

static void *call(void *nothing)
{
    while (!done) {
        void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED || (*(volatile char *)at = 1) != 1 || munmap(at, SIZE) != 0)
            failed++;
        mapped++;
        pthread_rwlock_rdlock(&lock);
        long (*function)(unsigned long size) = entered;
        if (function) {
            failed += function(SIZE) <= 0;
            entries++;
        }
        pthread_rwlock_unlock(&lock);
    }
    return nothing;
}

int main(void)
{
    char library[4096];
    pthread_t threads[THREADS];
    ssize_t length = readlink("/proc/self/exe", library, sizeof(library) - 32);
    if (length <= 0)
        return 1;
    library[length] = 0;
    strcpy(strrchr(library, '/') + 1, "libucm_load.so");
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, call, NULL) != 0)
            return 1;
    for (int i = 0; i < LOADS; i++) {
        long before = entries;
        void *handle = dlopen(library, RTLD_NOW);
        if (!handle || !entered) {
            fprintf(stderr, "load: %s\n",
                    handle ? "the library did not publish itself" : dlerror());
            return 1;
        }
        while (entries < before + THREADS)
            sched_yield();
        pthread_rwlock_wrlock(&lock);
        dlclose(handle);
        pthread_rwlock_unlock(&lock);
    }
    done = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("loaded %d times, %s, %ld failed\n", LOADS,
           mapped > LOADS && entries >= (long)LOADS * THREADS ? "all called" : "few called",
           failed);
    return 0;
}
