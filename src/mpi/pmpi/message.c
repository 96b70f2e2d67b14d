/* src/mpi/pmpi/message.c: see message.h. */
#include "mpi/pmpi/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A second: a reader that was stopped is not waited for. */
enum { WAITS = 1000, WAIT_NS = 1000000 };

/* What follows a message is often MPI's default error handler, which aborts the job. Hydra's proxy
 * passes an abort on before text that is ready at the same time, and mpiexec exits at once: the
 * text is lost. What the proxy has read before it hears of the abort reaches the user. */
static void wait_until_read(int fd)
{
    struct stat status;
    int unread = 0;
    if (fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode))
        return;
    for (int i = 0; i < WAITS && ioctl(fd, FIONREAD, &unread) == 0 && unread > 0; i++)
        nanosleep(&(struct timespec){0, WAIT_NS}, NULL);
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
