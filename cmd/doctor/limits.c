/* cmd/doctor/limits.c: resource limits (ulimit). Those on memory count the whole space, because the
 * kernel counts per address space. */
#include "cmd/doctor/doctor.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/lib/output.h"

/* The registry, the command and one small task. */
#define LEAST_SPACE (UINT64_C(256) << 20)

static void say_memory_limit(int resource, const char *subject, const char *fix)
{
    struct rlimit limit;
    char text[OUTPUT_SHORT];
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_GOOD, subject, NULL, "unlimited");
    else
        doctor_say(limit.rlim_cur < LEAST_SPACE ? DOCTOR_WRONG : DOCTOR_WARNING, subject, fix,
                   "%s for all tasks of a space together, not for each",
                   output_bytes(text, limit.rlim_cur));
}

static void say_files(void)
{
    enum { LEAST = 1024 };
    struct rlimit limit;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    getrlimit(RLIMIT_NOFILE, &limit);
    /* The host has one for each rank, and launchers a few. */
    rlim_t wanted = (rlim_t)cores * 8 > LEAST ? (rlim_t)cores * 8 : LEAST;
    int few = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted;
    doctor_say(few ? DOCTOR_WARNING : DOCTOR_GOOD, "ulimit -n",
               few ? "Raise it: ulimit -n 65536 (or limits.conf, LimitNOFILE=)." : NULL,
               "%llu open files%s", (unsigned long long)limit.rlim_cur,
               few ? ": too few for a rank on every CPU" : "");
}

static void say_processes(void)
{
    struct rlimit limit;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    getrlimit(RLIMIT_NPROC, &limit);
    int few = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)cores * 16;
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_GOOD, "ulimit -u", NULL, "unlimited");
    else
        doctor_say(few ? DOCTOR_WARNING : DOCTOR_GOOD, "ulimit -u",
                   few ? "Raise it: ulimit -u 16384 (or limits.conf, TasksMax=)." : NULL,
                   "%llu processes and threads of this user", (unsigned long long)limit.rlim_cur);
}

static void say_stack(void)
{
    struct rlimit limit;
    char text[OUTPUT_SHORT];
    getrlimit(RLIMIT_STACK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_WARNING, "ulimit -s",
                   "Name a size if that is too small: onespace run --stack 64M.",
                   "unlimited, which a task cannot have: each gets 8M");
    else
        doctor_say(DOCTOR_GOOD, "ulimit -s", NULL, "%s of main stack for each task",
                   output_bytes(text, limit.rlim_cur));
}

void doctor_limits(void)
{
    say_memory_limit(RLIMIT_AS, "ulimit -v", "Lift it: ulimit -v unlimited.");
    say_memory_limit(RLIMIT_DATA, "ulimit -d", "Lift it: ulimit -d unlimited.");
    say_files();
    say_processes();
    say_stack();
}
