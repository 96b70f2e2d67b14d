/* Executes itself through /proc/self/exe, read and followed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = 0;
    if (argc == 1) {
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
        return 2;
    }
    char *name = strrchr(path, '/');
    printf("restarted as %s\n", name ? name + 1 : path);
    return 0;
}
