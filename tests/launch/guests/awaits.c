/* tests/launch/guests/awaits.c: says that it runs, waits until all of its group do, and then to be
 * killed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "onespace.h"

int main(void)
{
    printf("up\n");
    fflush(stdout);
    int result = onespace_barrier(120000);
    if (result != 0) { /* one of them has ended: -EOWNERDEAD; late: -ETIMEDOUT */
        fprintf(stderr, "rank %d: barrier: %s\n", onespace_number(), strerror(-result));
        return 3;
    }
    printf("ready\n");
    fflush(stdout);
    sleep(600);
    return 0;
}
