/* recursion N: uses N MiB of its stack in frames of 64 KiB, and checks that each is its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME = 64 << 10 };

static int descend(int depth)
{
    volatile unsigned char frame[FRAME];
    memset((void *)frame, depth & 255, FRAME);
    int wrong = depth > 0 ? descend(depth - 1) : 0;
    for (int i = 0; i < FRAME; i += 997)
        wrong += frame[i] != (depth & 255);
    return wrong;
}

int main(int argc, char **argv)
{
    int wrong = descend((argc > 1 ? atoi(argv[1]) : 1) * 16);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
