/* first_realloc: many threads whose first realloc and free come at the same moment. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 16 };

static pthread_barrier_t start;

static void *first(void *block)
{
    pthread_barrier_wait(&start);
    char *grown = realloc(block, 4096);
    if (!grown)
        return "realloc gave nothing";
    free(grown);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    void *output;
    int failed = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, first, malloc(16)) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &output);
        failed += output != NULL;
    }
    printf("%d failed\n", failed);
    return failed != 0;
}
