/* tests/spawn/guests/exits.c: ends by the system call, while a second thread waits for ever. */
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *wait_for_ever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 1;
    return (int)syscall(SYS_exit_group, 3);
}
