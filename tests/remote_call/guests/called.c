/* tests/remote_call/guests/called.c: a program without onespace, whose functions are called. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int state = 7;

__attribute__((used)) static intptr_t add_to_state(void *amount)
{
    char *text = malloc(64);
    snprintf(text, 64, "%d", (int)(intptr_t)amount);
    state += atoi(text);
    free(text);
    errno = 0;
    return state;
}

int main(void)
{
    char byte;
    printf("main\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    printf("state %d\n", state);
    return 0;
}
