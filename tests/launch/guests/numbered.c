/* tests/launch/guests/numbered.c: says its number, waits until a file is there, and for its group.
 *
 * usage: numbered FILE */
#include <stdio.h>
#include <unistd.h>

#include "onespace.h"

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("number %d of %d\n", onespace_number(), onespace_ntasks());
    for (int i = 0; i < 60000 && argc > 1 && access(argv[1], F_OK) != 0; i++)
        usleep(10000);
    printf("barrier %d\n", onespace_barrier(180000));
    return 0;
}
