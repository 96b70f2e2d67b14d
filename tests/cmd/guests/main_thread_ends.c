/* main_thread_ends: the main thread ends before another one, which waits for standard input. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *wait_for_input(void *main_thread)
{
    char byte;
    pthread_join(*(pthread_t *)main_thread, NULL);
    printf("%d ready\n", getpid());
    fflush(stdout);
    (void)!read(STDIN_FILENO, &byte, 1);
    return NULL;
}

int main(void)
{
    static pthread_t own, other;
    own = pthread_self();
    if (pthread_create(&other, NULL, wait_for_input, &own) != 0)
        return 1;
    pthread_exit(NULL);
}
