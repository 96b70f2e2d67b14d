/* touch MIB: takes that much memory in several ways, writes to all of it, and ends without giving
 * it back. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *in_thread(void *argument)
{
    size_t size = *(size_t *)argument;
    memset(malloc(size), 1, size);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t part = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 18;
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &part);
    memset(malloc(part), 1, part);
    memset(mmap(NULL, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, part);
    for (size_t i = 0; i < part; i += 1000)
        memset(malloc(1000), 1, 1000);
    pthread_join(thread, NULL);
    return 0;
}
