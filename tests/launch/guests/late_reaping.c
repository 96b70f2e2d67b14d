/* tests/launch/guests/late_reaping.c: a preloaded library that makes events late, as on a busy
 * machine. Hydra's proxy looks LATE_US microseconds after each event whether a rank has ended; the
 * shims of ranks other than PROMPT_RANK take LATE_EXIT_US to exit. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_named(const char *name)
{
    return strcmp(program_invocation_short_name, name) == 0;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    pid_t (*next)(pid_t, int *, int) = (pid_t(*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid");
    const char *late = getenv("LATE_US");
    if (late && options & WNOHANG && is_named("hydra_pmi_proxy"))
        usleep((useconds_t)atoi(late));
    return next(pid, status, options);
}

__attribute__((destructor)) static void exit_late(void)
{
    const char *late = getenv("LATE_EXIT_US"), *rank = getenv("PMI_RANK"),
               *prompt = getenv("PROMPT_RANK");
    if (late && rank && prompt && strcmp(rank, prompt) != 0 && is_named("onespace"))
        usleep((useconds_t)atoi(late));
}
