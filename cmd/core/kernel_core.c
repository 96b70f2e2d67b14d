/* cmd/core/kernel_core.c: the core of the task that crashed, from the kernel's core of the whole
 * space.
 *
 * As a handler in kernel.core_pattern the kernel starts the command with all privileges, and the
 * memory that it reads may be that of a hostile program. So root only opens the new file, and a
 * child with the rights of the user whose program crashed does the rest. The kernel applies
 * RLIMIT_CORE to files only; for a pipe the handler must do that. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/core/core.h"
#include "cmd/lib/output.h"
#include "cmd/lib/user.h"

/* ---- Options ---- */

int core_set_crashed(struct core_from *from, const char *text)
{
    int end = 0;
    if (sscanf(text, "%u,%u,%" SCNu64 ",%d%n", &from->uid, &from->gid, &from->limit, &from->dump,
               &end) == 4 &&
        !text[end] && !strchr(text, '-')) {
        from->is_crashed = 1;
        return 0;
    }
    fprintf(stderr, "onespace core: --crashed %s: give %%u,%%g,%%c,%%d in kernel.core_pattern\n",
            text);
    return -1;
}

int core_set_most(struct core_from *from, const char *text)
{
    char *end;
    unsigned long mib = strtoul(text, &end, 10);
    if (end != text && !*end && text[0] != '-' && mib > 0 && mib < 1UL << 40) {
        from->most = (uint64_t)mib << 20;
        return 0;
    }
    fprintf(stderr, "onespace core: --max-mib %s: give a number of MiB, 1 or more\n", text);
    return -1;
}

/* ---- Extracting ---- */

static int explain_extract(const char *from, const char *path, const struct core_extract *extract,
                           int result)
{
    if (result == -EIO && extract->write_error)
        return core_report_write_error(path, extract->write_error);
    if (result == -ENOEXEC || result == -ENODATA)
        fprintf(stderr, "onespace core: %s is not a core that a kernel has written\n", from);
    else if (result == -ESRCH)
        fprintf(stderr,
                "onespace core: %s is not the core of a task: of another program, of the root, of "
                "another version's space, or without shared memory (coredump_filter), so without "
                "the registry\n",
                from);
    else
        fprintf(stderr, "onespace core: %s: %s\n", from, strerror(-result));
    return 1;
}

/* Writes the file up to its end, with the rights of this process. Returns an exit status. */
static int extract(const struct core_from *from, struct core_extract *request)
{
    char size[OUTPUT_SHORT];
    int result = core_extract(request);
    if (result != 0)
        return explain_extract(strcmp(from->core, "-") == 0 ? "standard input" : from->core,
                               from->file, request, result);
    printf("%s: task %d (pid %d), which signal %d ended, %s\n", from->file, request->id,
           request->pid, request->signal, output_bytes(size, (uint64_t)request->written));
    if (request->is_cut)
        fprintf(stderr, "onespace core: the core ends before the memory of the task does: raise "
                        "`ulimit -c`\n");
    return 0;
}

/* Limits the size, as for the kernel's cores. A write beyond it fails, because SIGXFSZ is ignored.
 */
static void bound_file(uint64_t most)
{
    struct rlimit limit;
    if (most == UINT64_MAX || getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > most)
        limit.rlim_cur = most;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* Extracts in a child process. Returns an exit status. */
static int extract_as_user(const struct core_from *from, struct core_extract *request, uid_t uid,
                           gid_t gid)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("onespace core: cannot fork");
        return 1;
    }
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        int error = user_become(uid, gid);
        if (error != 0)
            fprintf(stderr, "onespace core: this process cannot become user %u: %s\n",
                    (unsigned)uid, strerror(-error));
        status = error ? 1 : extract(from, request);
        fflush(NULL);
        _exit(status);
    }
    if (user_await(child, 0, &status) < 0)
        return 1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "onespace core: the process that read the core was ended by signal %d\n",
                WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The core's descriptor, and its owner in *status; -1 with a message. */
static int open_core(const struct core_from *from, struct stat *status)
{
    int is_input = strcmp(from->core, "-") == 0;
    int fd =
        is_input ? STDIN_FILENO : open(from->core, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, status) != 0) {
        fprintf(stderr, "onespace core: %s: %s: name a core that can be read\n", from->core,
                strerror(errno));
        return -1;
    }
    if (!is_input && !S_ISREG(status->st_mode)) {
        fprintf(stderr, "onespace core: %s is not a regular file: pass a pipe as standard input\n",
                from->core);
        return -1;
    }
    if (geteuid() == 0 && !from->is_crashed && !S_ISREG(status->st_mode)) {
        fprintf(stderr, "onespace core: the user whose program crashed is not known: give "
                        "--crashed %%u,%%g,%%c,%%d in kernel.core_pattern\n");
        return -1;
    }
    return fd;
}

int core_from(const struct core_from *from)
{
    uint64_t most = from->limit < from->most ? from->limit : from->most;
    struct core_extract request = {.to = -1, .most = most, .opens_nothing = from->is_crashed};
    struct stat status;
    if (from->is_crashed && from->limit == 0)
        return 0; /* the user wants no core */
    request.from = open_core(from, &status);
    if (request.from < 0)
        return 1;
    uid_t uid = from->is_crashed ? from->uid : geteuid() == 0 ? status.st_uid : geteuid();
    gid_t gid = from->is_crashed ? from->gid : status.st_gid;
    request.to = core_open_file(from->file);
    if (request.to < 0)
        return 1;
    bound_file(most);
    int result =
        uid == geteuid() ? extract(from, &request) : extract_as_user(from, &request, uid, gid);
    /* The core of a program that had more rights than its user stays root's, as the kernel's. */
    if (result == 0 && from->is_crashed && from->dump == 1 && geteuid() == 0 &&
        fchown(request.to, uid, gid) != 0)
        result = core_report_write_error(from->file, errno);
    if (result == 0)
        return core_finish_file(request.to, from->file, 0);
    core_discard_file(request.to);
    return result;
}
