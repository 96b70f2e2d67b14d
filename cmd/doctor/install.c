/* cmd/doctor/install.c: onespace's own parts, libxpmem, and a trial: starts tasks, one of which
 * crashes. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/kernel.h"
#include "base/proc.h"
#include "cmd/lib/files.h"
#include "cmd/lib/patch_sites.h"
#include "elf/elf.h"
#include "launch/launch.h"
#include "onespace.h"
#include "policy/policy.h"
#include "space/layout.h"
#include "spawn/spawn.h"

/* ---- The installation ---- */

static void say_version(void)
{
    doctor_say(DOCTOR_GOOD, "onespace", NULL, "%s, %s", onespace_version(),
               file_self() ? file_self() : "of unknown path: /proc cannot be read");
}

static void say_agent(void)
{
    const char *path = agent_path();
    if (!path)
        doctor_say(
            DOCTOR_WRONG, "agent",
            "Install libonespace-agent.so with the command, or set ONESPACE_AGENT to its path.",
            "libonespace-agent.so was not found beside the command or its lib directory");
    else if (access(path, R_OK) != 0)
        doctor_say(DOCTOR_WRONG, "agent", "Make it readable, or install it again.", "%s: %s", path,
                   strerror(errno));
    else
        doctor_say(DOCTOR_GOOD, "agent", NULL, "%s", path);
}

static void say_region(void)
{
    const uintptr_t end = LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE;
    const unsigned low = (unsigned)(LAYOUT_REGION >> 40), high = (unsigned)(end >> 40);
    char line[PATH_MAX + 128], taken[PATH_MAX + 128] = "";
    struct rlimit stack;
    struct proc_mapping mapping;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) {
        doctor_say(DOCTOR_WRONG, "address region", "Mount /proc.", "/proc/self/maps: %s",
                   strerror(errno));
        return;
    }
    while (fgets(line, sizeof(line), maps))
        if (proc_parse_mapping(line, &mapping) && mapping.start < end &&
            mapping.end > LAYOUT_REGION)
            strcpy(taken, line);
    fclose(maps);
    taken[strcspn(taken, "\n")] = 0;
    /* Without a limit the stack gets five sixths of the address space, and libraries lie below. */
    getrlimit(RLIMIT_STACK, &stack);
    if (taken[0])
        doctor_say(
            DOCTOR_WRONG, "address region",
            stack.rlim_cur > LAYOUT_REGION / 2
                ? "Limit the stack: ulimit -s 8192."
                : "Start without what maps there: a sanitizer, a preloaded library, setarch -L, "
                  "vm.legacy_va_layout.",
            "%u TiB to %u TiB is not free, and many tasks would collide with: %s", low, high,
            taken);
    else
        doctor_say(DOCTOR_GOOD, "address region", NULL, "%u TiB to %u TiB is free", low, high);
}

static void say_interposition(void)
{
    struct elf_program program;
    struct elf_problem problem;
    struct patch_sites loader = {0}, libc = {0};
    char path[PATH_MAX], missing_loader[128], missing_libc[128];
    char *argv[] = {"sh", NULL};
    static const char fix[] =
        "Report this libc's version and distribution to the onespace project.";
    if (elf_resolve(AT_FDCWD, "/bin/sh", argv, NULL, &program, &problem) != 0) {
        doctor_say(DOCTOR_WARNING, "interposition", problem.fix,
                   "/bin/sh cannot tell which libc programs use here: it %s", problem.reason);
        return;
    }
    if (!program.interpreter_path[0]) /* a static shell: busybox, for one */
        strcpy(program.interpreter_path, program.path);
    patch_sites_libc_path(program.interpreter_path, path, sizeof(path));
    if (patch_sites_count(program.interpreter_path, &loader) < 0 ||
        patch_sites_count(path, &libc) < 0) {
        doctor_say(DOCTOR_WARNING, "interposition", NULL, "%s cannot be read", path);
    } else if (patch_sites_missing(&loader, 1, missing_loader, sizeof(missing_loader)) +
                   patch_sites_missing(&libc, 0, missing_libc, sizeof(missing_libc)) ==
               0) {
        doctor_say(DOCTOR_GOOD, "interposition", NULL,
                   "all system calls to interpose are found in %s and %s", program.interpreter_path,
                   path);
    } else {
        doctor_say(
            DOCTOR_WARNING, "interposition", fix,
            "not found: %s%s%s%s%s%s%s; tasks work, but these calls are not interposed: memory is "
            "not given back (mmap, munmap, brk, mremap), or copies go through the kernel "
            "(process_vm_readv)",
            missing_loader, *missing_loader ? " in " : "",
            *missing_loader ? program.interpreter_path : "",
            *missing_loader && *missing_libc ? "; " : "", missing_libc, *missing_libc ? " in " : "",
            *missing_libc ? path : "");
    }
    elf_program_free(&program);
}

enum { RULES_MAX_BYTES = 512 };

static void append_rule(char rules[RULES_MAX_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append_rule(char rules[RULES_MAX_BYTES], const char *format, ...)
{
    size_t length = strlen(rules);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rules + length, RULES_MAX_BYTES - length, format, arguments);
    va_end(arguments);
}

static void append_words(char rules[RULES_MAX_BYTES], const char *what,
                         const struct policy_words *words)
{
    if (!words->is_given)
        return;
    append_rule(rules, "; %s %s", what, words->count ? "" : "nothing");
    for (unsigned i = 0; i < words->count; i++)
        append_rule(rules, "%s%s", i ? ", " : "", words->words[i]);
}

static void say_policy(void)
{
    struct policy policy;
    char text[RULES_MAX_BYTES] = "";
    if (policy_admit(&policy, text, sizeof(text)) < 0) {
        doctor_say(DOCTOR_WRONG, "policy", "Ask the administrator of this machine.", "%s", text);
        return;
    }
    if (!policy.exists) {
        doctor_say(DOCTOR_GOOD, "policy", NULL, "no policy: there is no %s", POLICY_FILE);
        return;
    }
    if (!policy.allow_root)
        append_rule(text, "; not for root");
    if (policy.max_tasks)
        append_rule(text, "; at most %u tasks", policy.max_tasks);
    if (policy.require_guard)
        append_rule(text, "; all tasks are guarded");
    if (policy.log)
        append_rule(text, "; starts and ends are logged%s",
                    policy.log_digest ? " with digests" : "");
    append_words(text, "only for the groups", &policy.allow_groups);
    append_words(text, "ONESPACE_MAY_DIFFER may name", &policy.allow_differences);
    doctor_say(DOCTOR_GOOD, "policy", NULL, "%s: %s", POLICY_FILE,
               text[0] ? text + 2 : "no restriction");
}

static void say_sockets(void)
{
    char path[128], message[512];
    int result = runtime_dir_open(path, sizeof(path), message, sizeof(message));
    if (result < 0) {
        doctor_say(DOCTOR_WRONG, "socket directory",
                   "Fix the directory's owner and mode, or set XDG_RUNTIME_DIR.", "%s", message);
        return;
    }
    rmdir(path); /* fails, as it should, when a host's socket is in it */
    doctor_say(DOCTOR_GOOD, "socket directory", NULL, "%s can be made, and is this user's alone",
               path);
}

void doctor_install(void)
{
    say_version();
    say_agent();
    say_region();
    say_interposition();
    say_policy();
    say_sockets();
}

/* ---- The trial: what the child writes is "WORD NUMBER TEXT" a line ---- */

enum { TRIAL_RUNS = 5 };

static long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Its wait status, or -1 after saying why. */
static int run_task(int out, const char *const argv[])
{
    char message[512] = "";
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    struct onespace_status status = {0};
    attr.message = message;
    attr.message_size = sizeof(message);
    int id = onespace_spawn(argv[0], (char *const *)argv, NULL, &attr);
    int result = id > 0 ? onespace_wait(id, &status, 60000) : id;
    if (result < 0) {
        dprintf(out, "failed %d %s\n", result, message[0] ? message : strerror(-result));
        return -1;
    }
    return status.status;
}

static int compare_longs(const void *left, const void *right)
{
    long a = *(const long *)left, b = *(const long *)right;
    return a < b ? -1 : a > b;
}

static void run_trial(int out, void *context)
{
    static const char *const idle[] = {"/bin/true", NULL};
    static const char *const crash[] = {"/bin/sh", "-c", "kill -SEGV $$", NULL};
    long times[TRIAL_RUNS];
    (void)context;
    int root = onespace_init();
    if (root < 0) {
        dprintf(out, "failed %d a space cannot be made: %s\n", root, strerror(-root));
        return;
    }
    for (int i = 0; i < TRIAL_RUNS; i++) {
        long before = now_us();
        int status = run_task(out, idle);
        if (status == -1)
            return;
        times[i] = now_us() - before;
        if (status != 0) {
            dprintf(out, "failed %d /bin/true ended with wait status %#x\n", status,
                    (unsigned)status);
            return;
        }
    }
    qsort(times, TRIAL_RUNS, sizeof(times[0]), compare_longs);
    dprintf(out, "ran %ld\n", times[TRIAL_RUNS / 2]);
    int status = run_task(out, crash);
    if (status != -1)
        dprintf(out, "survived %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    int ended = onespace_fini();
    if (ended < 0)
        dprintf(out, "failed %d the space cannot be ended: %s\n", ended, strerror(-ended));
}

void doctor_trial(void)
{
    if (kernel_may_stall(NULL)) { /* even a few tasks may be too many */
        doctor_say(DOCTOR_WARNING, "trial",
                   "Update the kernel, or set ONESPACE_FAULTY_KERNEL=1 if your distribution has "
                   "fixed what is reported as wrong above.",
                   "not made, because this kernel may stall the machine while tasks run");
        return;
    }
    char answer[1024];
    int status = doctor_child(run_trial, NULL, answer, sizeof(answer), 60000);
    const char *ran = strstr(answer, "ran "), *survived = strstr(answer, "survived ");
    char *failed = strstr(answer, "failed ");
    if (failed) {
        failed[strcspn(failed, "\n")] = 0;
        char *text = strchr(failed + 7, ' ');
        doctor_say(DOCTOR_WRONG, "trial", "Fix what is reported as wrong above, then try again.",
                   "%s", text ? text + 1 : failed);
        return;
    }
    if (!ran) {
        doctor_say(DOCTOR_WRONG, "trial", "Fix what is reported as wrong above, then try again.",
                   "/bin/true as a task: %s",
                   status == -ETIMEDOUT  ? "it hangs"
                   : status < 0          ? strerror(-status)
                   : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                         : "no answer");
        return;
    }
    doctor_say(DOCTOR_GOOD, "trial", NULL,
               "a task was made and ended in %.2f ms (/bin/true, median of %d)",
               (double)atol(ran + 4) / 1000, TRIAL_RUNS);
    if (survived && atoi(survived + 9) == SIGSEGV)
        doctor_say(DOCTOR_GOOD, "crash", NULL, "a task that crashed left the others alone");
    else
        doctor_say(DOCTOR_WARNING, "crash",
                   "Use Linux 5.16 or later, or do not set ONESPACE_DUMPABLE.",
                   "a task that crashed took the space with it");
}

/* ---- The libxpmem.so.0 that programs find, in tasks and elsewhere ---- */

static const char xpmem_library[] = "libxpmem.so.0";

static int copy_xpmem_path(const char *name, const char *path, void *installed)
{
    if (strncmp(name, xpmem_library, sizeof(xpmem_library) - 1) != 0)
        return 0;
    snprintf(installed, PATH_MAX, "%s", path);
    return 1;
}

/* Whether ld.so's openat can be interposed: 1, or 0. *interpreter says which ld.so. */
static int can_redirect(char *interpreter, size_t size)
{
    struct elf_program program;
    struct elf_problem problem;
    struct patch_sites sites = {0};
    char *argv[] = {"sh", NULL};
    snprintf(interpreter, size, "/bin/sh");
    if (elf_resolve(AT_FDCWD, "/bin/sh", argv, NULL, &program, &problem) != 0)
        return 0;
    snprintf(interpreter, size, "%s", program.interpreter_path);
    int found = patch_sites_count(program.interpreter_path, &sites) == 0 && sites.openat > 0;
    elf_program_free(&program);
    return found;
}

void doctor_xpmem(void)
{
    char ours[PATH_MAX], installed[PATH_MAX] = "none", interpreter[PATH_MAX];
    const char *module = access("/dev/xpmem", F_OK) == 0 ? "loaded" : "not loaded";
    doctor_each_library(copy_xpmem_path, installed);
    agent_sibling_path(xpmem_library, ours, sizeof(ours));
    if (!ours[0])
        doctor_say(DOCTOR_WARNING, "XPMEM", "Install libxpmem.so.0 with the command.",
                   "%s was not found beside the agent: MPI libraries that use XPMEM find in tasks "
                   "what other programs find (%s; kernel module %s)",
                   xpmem_library, installed, module);
    else if (!can_redirect(interpreter, sizeof(interpreter)))
        doctor_say(DOCTOR_WARNING, "XPMEM",
                   "Report this libc's version and distribution to the onespace project, and put "
                   "the library's directory into LD_LIBRARY_PATH.",
                   "where %s opens libraries was not recognised: in tasks %s is found as elsewhere "
                   "(%s; kernel module %s)",
                   interpreter, xpmem_library, installed, module);
    else
        doctor_say(DOCTOR_GOOD, "XPMEM", NULL,
                   "%s is in tasks %s, in other programs %s; kernel module %s", xpmem_library, ours,
                   installed, module);
}
