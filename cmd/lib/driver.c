/* cmd/lib/driver.c: subcommands that are Python programs: finds the program and executes it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/lib/driver.h"

/* The installed program, beside the command's directory; else that of the source tree around the
 * build. */
static int find(const char *path, char driver[PATH_MAX], char self[PATH_MAX])
{
    static const char *const below[] = {"../share/onespace/bench", "../../bench"};
    ssize_t size = readlink("/proc/self/exe", self, PATH_MAX - 1);
    if (size <= 0)
        return -errno;
    self[size] = 0;
    int directory = (int)(strrchr(self, '/') - self);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
        int length = snprintf(driver, PATH_MAX, "%.*s/%s/%s", directory, self, below[i], path);
        if (length < PATH_MAX && access(driver, R_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

/* The distribution's Python first: the distribution's matplotlib belongs to it. */
static void execute(char **words)
{
    words[0] = "/usr/bin/python3";
    execv(words[0], words);
    words[0] = "python3";
    execvp(words[0], words);
}

int driver_become(const char *subcommand, const char *path, char **words)
{
    char driver[PATH_MAX], self[PATH_MAX] = "";
    if (find(path, driver, self) != 0) {
        fprintf(stderr,
                "onespace %s: its program is not installed beside %s (share/onespace/bench): "
                "install onespace with `make install`\n",
                subcommand, self);
        return 1;
    }
    setenv("ONESPACE_BIN", self, 1);
    words[1] = driver;
    execute(words);
    fprintf(stderr, "onespace %s: cannot run python3 (%s): install it (Debian package python3)\n",
            subcommand, strerror(errno));
    return 1;
}
