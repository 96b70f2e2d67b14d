/* tests/launch/guests/hog.c FIRST MORE: the last task touches FIRST MiB, says so, and MORE MiB
 * six seconds later. The others wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onespace.h"

static char *volatile kept[2]; /* or the compiler leaves the memory out */

static void touch(const char *mib)
{
    static unsigned count;
    size_t size = (size_t)atoi(mib) << 20;
    char *block = malloc(size);
    if (!block)
        exit(2);
    kept[count++] = memset(block, 1, size);
}

int main(int argc, char **argv)
{
    if (argc == 3 && onespace_number() == onespace_ntasks() - 1) {
        touch(argv[1]);
        printf("hog %d\n", getpid());
        fflush(stdout);
        sleep(6);
        touch(argv[2]);
    }
    sleep(600);
    return 1;
}
