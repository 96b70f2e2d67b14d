/* src/host/job/told.c: see told.h. */
#include "host/job/told.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { NOT_SAID = 1, SAID = 2, PATIENCE_MS = 1000 };

int told_make(void)
{
    int token = eventfd(NOT_SAID, EFD_CLOEXEC | EFD_NONBLOCK);
    return token < 0 ? -errno : token;
}

int told_claim(int token)
{
    uint64_t state;
    struct pollfd said = {token, POLLIN, 0};
    if (read(token, &state, sizeof(state)) != (ssize_t)sizeof(state)) {
        (void)poll(&said, 1, PATIENCE_MS); /* left for the others to see */
        return 0;
    }
    if (state == NOT_SAID)
        return 1;
    told_done(token); /* put back for the others */
    return 0;
}

void told_done(int token)
{
    const uint64_t said = SAID;
    (void)!write(token, &said, sizeof(said));
}
