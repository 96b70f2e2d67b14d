/* tests/host/guests/awaits.c: says that it runs, waits until all of its group do, and then to be
 * killed. */
#include <stdio.h>
#include <unistd.h>

#include "onespace.h"

int main(void)
{
    printf("up\n");
    fflush(stdout);
    if (onespace_barrier(20000) != 0)
        return 3; /* one of them has ended */
    printf("ready\n");
    fflush(stdout);
    sleep(60);
    return 0;
}
