/* Spawns tasks until there may be no more, and ends them; twice. Prints how many there were, and
 * the error. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>

#include "onespace.h"

int main(void)
{
    static int ids[ONESPACE_TASKS_MAX];
    char message[512] = "", *argv[] = {"sleep", "1000", NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.message = message;
    attr.message_size = sizeof(message);
    assert(onespace_init() > 0);
    for (int round = 0; round < 2; round++) {
        int count = 0, id;
        while ((id = onespace_spawn("sleep", argv, NULL, &attr)) > 0)
            ids[count++] = id;
        printf("%d at once, then %d\n", count, id);
        fprintf(stderr, "%s\n", message);
        for (int i = 0; i < count; i++) {
            struct onespace_status status;
            assert(onespace_kill(ids[i], SIGKILL) == 0);
            assert(onespace_wait(ids[i], &status, 60000) == ids[i]);
        }
    }
    return 0;
}
