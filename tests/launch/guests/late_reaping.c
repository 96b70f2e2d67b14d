/* tests/launch/guests/late_reaping.c: a preloaded library with which Hydra's proxy looks LATE_US
 * microseconds after each event whether a rank has ended, as on a busy machine. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t waitpid(pid_t pid, int *status, int options)
{
    pid_t (*next)(pid_t, int *, int) = (pid_t(*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid");
    const char *late = getenv("LATE_US");
    if (late && options & WNOHANG && strcmp(program_invocation_short_name, "hydra_pmi_proxy") == 0)
        usleep((useconds_t)atoi(late));
    return next(pid, status, options);
}
