/* tests/remote_call/guests/large_tls.c: a program whose thread-local storage fits no small stack.
 */
#include <stdio.h>

#include "onespace.h"
#include "onespace/call.h"

static _Thread_local char large[512 * 1024] = {1};

int main(void)
{
    int id = onespace_init(), served = onespace_call_serve();
    printf("%d %d %d\n", id > 0, served, large[0]);
    return 0;
}
