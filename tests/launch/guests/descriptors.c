/* tests/launch/guests/descriptors.c: says which descriptors it has, and of which kind, then waits
 * until a file is there.
 *
 * usage: descriptors [FILE] */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char text[65536];
    size_t at = 0;
    struct stat status;
    for (int fd = 0; fd < 4096 && at < sizeof(text) - 64; fd++)
        if (fstat(fd, &status) == 0)
            at += (size_t)snprintf(text + at, sizeof(text) - at, " %d:%o:%x", fd,
                                   status.st_mode & S_IFMT, fcntl(fd, F_GETFD));
    printf("has%s\n", text);
    fflush(stdout);
    for (int i = 0; i < 60000 && argc > 1 && access(argv[1], F_OK) != 0; i++)
        usleep(10000);
    return 0;
}
