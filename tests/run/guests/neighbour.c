/* Two tasks by hand: each writes the address of a static array into a file descriptor that it
 * shares with the other (a socket pair cannot be had from outside, so a file does), and reads the
 * other's. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int numbers[4];

int main(void)
{
    int self = atoi(getenv("ONESPACE_TASK_ID"));
    char path[200];
    snprintf(path, sizeof(path), "%s/neighbour", getenv("XDG_RUNTIME_DIR"));
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    numbers[2] = 1000 + self;
    volatile int *own = numbers, *other = NULL;
    if (fd < 0 || pwrite(fd, &own, sizeof(own), self * 8) != sizeof(own))
        return 2;
    for (int tries = 0; tries < 12000 && !other; tries++) {
        if (pread(fd, &other, sizeof(other), (1 - self) * 8) != sizeof(other))
            other = NULL;
        usleep(5000);
    }
    if (!other)
        return 3;
    printf("%d read %d\n", self, other[2]);
    fflush(stdout);
    other[3] = 1; /* it has been read: each stays until it has */
    for (int tries = 0; tries < 12000 && !numbers[3]; tries++)
        usleep(5000);
    unlink(path);
    return 0;
}
