/* src/pip/start_stop.c: PIP_STOP_ON_START=[SCRIPT][@PIPID]: a new task stops before its program, so
 * that a debugger can be attached; the script, if one is named, is told its PID. */
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "state.h"

/* The script starts when the task has stopped. It is orphaned at once, so that the task does not
 * find a child that it did not make. $1 PID, $2 the script, $3 PiP id, $4 program. */
static const char await_and_run[] = "(while ! grep -q '^State:[[:space:]]*T' /proc/$1/status; do "
                                    "sleep 0.02; done; exec \"$2\" \"$1\" \"$3\" \"$4\") &";

static void run_script(char *script, int pipid, const char *program)
{
    char pid[16], number[16];
    snprintf(pid, sizeof(pid), "%d", getpid());
    snprintf(number, sizeof(number), "%d", pipid);
    char *argv[] = {"sh",   "-c",   (char *)(uintptr_t)await_and_run, "sh", pid,
                    script, number, (char *)(uintptr_t)program,       NULL};
    pid_t child;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0)
        waitpid(child, NULL, 0);
}

void stop_on_start(const char *wanted, int pipid, const char *program)
{
    char script[4096];
    if (!wanted)
        return;
    size_t length = strcspn(wanted, "@");
    const char *target = wanted[length] ? wanted + length + 1 : "";
    char *end;
    long number = strtol(target, &end, 10);
    if ((*target && number >= 0 && number != pipid) || length >= sizeof(script))
        return;
    memcpy(script, wanted, length);
    script[length] = 0;
    if (length && access(script, X_OK) != 0) {
        pip_warn_mesg("%s=%s: %s cannot be executed: %s", PIP_ENV_STOP_ON_START, wanted, script,
                      strerror(errno));
        return;
    }
    pip_info_mesg("task %d (PID %d) stops; kill -CONT %d lets it go on", pipid, getpid(), getpid());
    if (length)
        run_script(script, pipid, program);
    kill(getpid(), SIGSTOP);
}
