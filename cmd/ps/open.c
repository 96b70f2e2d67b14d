/* cmd/ps/open.c: undumpable spaces are opened to this command.
 *
 * Before Linux 5.16 a space is undumpable (reaper/reaper.h), and only privileged processes may look
 * at its members, though all of it is this user's. Its reaper, which is known by its name, opens it
 * on a signal, and closes it when this process has ended, however that happens. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ps/ps.h"
#include "reaper/reaper.h"

enum { WAIT_MS = 1000 };

static int is_reaper(int pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(name, sizeof(name), file))
            name[0] = 0;
        fclose(file);
    }
    return strcmp(name, "onespace-reaper\n") == 0;
}

static int is_open(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || (errno != EACCES && errno != EPERM);
}

static void open_space(int pid)
{
    for (int i = 0; i < WAIT_MS; i++) {
        if (kill(pid, DUMPABLE_SIGNAL) != 0) /* another user's, or gone */
            return;
        if (is_open(pid))
            return;
        usleep(1000);
    }
}

/* Also what is open, unless this process is privileged: another command may have opened it, and end
 * before this one. */
void ps_open_spaces(void)
{
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        int pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (pid > 0 && is_reaper(pid) && (geteuid() != 0 || !is_open(pid)))
            open_space(pid);
    }
    if (processes)
        closedir(processes);
}
