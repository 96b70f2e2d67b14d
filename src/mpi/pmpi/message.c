/* src/mpi/pmpi/message.c: see message.h. */
#include "mpi/pmpi/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POLLS_MAX = 1000, POLL_NS = 1000000 }; /* together a second: the reader may be stopped */

/* A message is often followed by MPI's default error handler, which aborts the job. Hydra's proxy
 * forwards an abort before text that is ready at the same time, and mpiexec exits at once, so the
 * text would be lost. Text that the proxy has read before the abort reaches the user. */
static void wait_until_read(int fd)
{
    struct stat status;
    int unread = 0;
    if (fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode))
        return;
    for (int i = 0; i < POLLS_MAX && ioctl(fd, FIONREAD, &unread) == 0 && unread > 0; i++)
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
}

void layer_message(int rank, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "onespace: rank %d: %s\n", rank, text); /* one write: lines stay whole */
    wait_until_read(STDERR_FILENO);
}
