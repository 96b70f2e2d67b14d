/* cmd/run/command.c: onespace run: the choice between running by hand and joining a
 * job. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/keys.h"
#include "cmd/lib/commands.h"
#include "cmd/run/run.h"
#include "api/kernel.h"
#include "shim/defaults.h"
#include "shim/launcher.h"
#include "shim/shim.h"

/* 0, or 2 with a message. */
static int check_numbers(const struct launcher *launcher)
{
    int rank = launcher->local_rank, size = launcher->local_size;
    if (size < 0 || (rank < size && size <= ONESPACE_TASKS_MAX))
        return 0;
    fprintf(stderr, "onespace run: %s=%d with %s=%d: %s\n", launcher->rank_variable, rank,
            launcher->size_variable, size,
            rank >= size ? "the launcher's variables contradict one another; unset those of "
                           "another job"
                         : "one space holds 2047 tasks; start fewer ranks on a node");
    return 2;
}

static int run_joined(const struct run_options *run, const struct launcher *launcher)
{
    const struct run_segment *segment = &run->segments[0];
    if (run->segment_count > 1 || segment->count > 1) {
        fprintf(stderr,
                "onespace run: with --space or under a launcher each instance runs one task; "
                "give the launcher the count instead\n");
        return 2;
    }
    if (check_numbers(launcher))
        return 2;
    if (run->kill_on_failure)
        fprintf(stderr, "onespace run: --on-failure is the launcher's business here: ignored\n");
    struct shim_job job = {
        .space = run->space ? run->space : launcher->space,
        .argv = segment->argv,
        .flags = segment->flags,
        .stack_size = segment->stack_size,
        .launcher = launcher->daemon,
        .number = launcher->local_size > 0 ? launcher->local_rank : -1,
        .ntasks = launcher->local_rank >= 0 ? launcher->local_size : -1,
        .stats = run->stats,
        .launch = launcher->space,
        .bind = run->bind,
    };
    unsigned ranks = job.ntasks > 0 ? (unsigned)job.ntasks : 1;
    if (run->verbose)
        verbose_say_rank(segment, job.space, run->space ? "--space" : launcher->found_by,
                         job.number, job.ntasks);
    if (run->verbose && job.number <= 0) /* once for a job on this node */
        verbose_say_job(segment, launcher->is_rank ? launcher->kind : "none", ranks);
    defaults_set(ranks);
    return shim_run(&job);
}

static int refuse_threads(const char *with, const char *why)
{
    fprintf(stderr, "onespace run: --thread-mode with %s: %s\n", with, why);
    return 2;
}

/* What threads of one process cannot have: 0, or 2 with a message. */
static int check_thread_mode(const struct run_options *run, const struct launcher *launcher)
{
    if (run->space)
        return refuse_threads("--space", "what joins a space is a process of its own; leave one of "
                                         "the two out");
    if (launcher->is_rank && !run->counted)
        return refuse_threads("a launcher", "its ranks are processes; leave --thread-mode out, or "
                                            "start the tasks by hand with -n N");
    if (run->kill_on_failure)
        return refuse_threads("--on-failure kill", "a signal that ends one of them ends all, this "
                                                   "command too; leave one of the two out");
    for (int s = 0; s < run->segment_count; s++)
        if (run->segments[s].flags & ONESPACE_SPAWN_NO_INTERPOSE)
            return refuse_threads("--no-interpose", "system calls of their libc must be "
                                                    "interposed; leave one of the two out");
    return 0;
}

static int refuse_guard(const struct launcher *launcher, int status, const char *why)
{
    if (launcher->local_rank <= 0) /* once for a job */
        fprintf(stderr, "onespace run: --guard%s\n", why);
    return status;
}

/* Before any task is started: 0, or the exit status with a message. */
static int check_guard(const struct run_options *run, const struct launcher *launcher)
{
    for (int s = 0; s < run->segment_count; s++) {
        unsigned flags = run->segments[s].flags;
        if (!(flags & ONESPACE_SPAWN_GUARD))
            continue;
        if (flags & ONESPACE_SPAWN_NO_INTERPOSE)
            return refuse_guard(launcher, 2,
                                " with --no-interpose: memory gets its key as system calls of the "
                                "libc map it; leave one of the two out");
        if (run->thread_mode)
            return refuse_guard(launcher, 2,
                                " with --thread-mode: threads of one process share their signal "
                                "handlers; leave one of the two out");
        if (!arch_cpu_has_keys())
            return refuse_guard(launcher, EXIT_FAILURE,
                                ": this CPU has no protection keys (Intel since Skylake-SP, AMD "
                                "since Zen 3, not in every virtual machine): leave --guard out, or "
                                "run on a CPU that has them");
        if (!arch_kernel_has_keys())
            return refuse_guard(launcher, EXIT_FAILURE,
                                ": the kernel does not use the CPU's protection keys: boot it "
                                "without nopku, and with "
                                "CONFIG_X86_INTEL_MEMORY_PROTECTION_KEYS");
    }
    return 0;
}

/* Without /proc neither the host nor a library's patch sites would be found. 0 or -1. */
static int check_proc(void)
{
    if (access("/proc/self/maps", R_OK) == 0)
        return 0;
    fprintf(stderr, "onespace run: /proc cannot be read: %s; mount it (mount -t proc proc /proc)\n",
            strerror(errno));
    return -1;
}

int command_run(int argc, char **argv)
{
    static struct run_options run;
    struct launcher launcher;
    if (run_parse(argc, argv, &run) < 0)
        return 2;
    if (check_proc() < 0)
        return EXIT_FAILURE;
    launcher_find(&launcher);
    if (kernel_check(launcher.local_rank <= 0 ? "onespace run" : NULL) <
        0) /* said once for a job */
        return EXIT_FAILURE;
    if (run.thread_mode && check_thread_mode(&run, &launcher))
        return 2;
    int refused = check_guard(&run, &launcher);
    if (refused)
        return refused;
    if (run.space || (launcher.is_rank && !run.counted))
        return run_joined(&run, &launcher);
    if (!launcher.is_rank)
        run_say_singletons(&run);
    return run_by_hand(&run);
}
