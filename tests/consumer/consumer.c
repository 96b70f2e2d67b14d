/* tests/consumer/consumer.c: an installed copy is enough to run a program as a task. */
#include <onespace.h>
#include <stdio.h>
#include <sys/wait.h>

int main(void)
{
    char *argv[] = {"true", NULL};
    struct onespace_status status;
    if (onespace_init() != ONESPACE_ROOT)
        return 1;
    int id = onespace_spawn("true", argv, NULL, NULL);
    if (id < 0 || onespace_wait(id, &status, 10000) != id || !WIFEXITED(status.status))
        return 1;
    printf("C consumer of onespace %s: task %d ended\n", onespace_version(), id);
    return onespace_fini() == 0 ? WEXITSTATUS(status.status) : 1;
}
