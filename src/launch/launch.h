/* src/launch/launch.h: what `onespace run` does with its programs, for the commands.
 *
 * Under a launcher, or with --space, a shim asks the host of a named space to run the task, and
 * stands in for it. The first shim starts the host. Without a launcher the process itself is the
 * root of the space: a standalone run. */
#ifndef ONESPACE_LAUNCH_LAUNCH_H
#define ONESPACE_LAUNCH_LAUNCH_H

#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/report.h"
#include "onespace.h"

/* ---- launcher.c: which launcher started this process, and the name of its space ---- */

struct launcher {
    int is_rank;                /* this process is a rank of a launcher */
    const char *kind;           /* "hydra", "pmix", "openmpi", "slurm", ... for --verbose */
    int local_rank, local_size; /* on this node, -1 if not known */
    const char *rank_variable, *size_variable; /* their environment variables, or NULL */
    int daemon;         /* pid of the launcher's process that names the space, or 0 */
    char space[64];     /* the name of the space; fits into a socket's path */
    char found_by[128]; /* how the name was found, for --verbose */
};

/* Reads the environment and the ancestors of this process. Never fails. */
void launcher_find(struct launcher *launcher);
/* The entry of a node, counted from 0, in Slurm's list of tasks per node: "2(x3),1" means 2,2,2,1.
 * -1: none. */
int launcher_slurm_tasks(const char *list, int node);

/* Sets ONESPACE_TASK_ID and ONESPACE_NTASKS, which the task inherits. */
void set_task_numbers(int number, int ntasks);
/* Raises RLIMIT_NOFILE of this process to its hard limit. */
void raise_descriptor_limit(void);
/* Opens those of descriptors 0 to 2 that are closed, on /dev/null: no socket or pipe must become
 * standard error, where messages are printed. Tasks have them closed. */
void open_standard_descriptors(void);
/* In a child that the root has just forked: makes it a process that serves the space from outside.
 * The kernel kills it when the root ends; it blocks all signals, can wait for children, and may
 * have as many descriptors as possible. It keeps `fd` alone, as SERVER_FD: launchers wait for the
 * end of the root's other descriptors. */
enum { SERVER_FD = 3 };
void become_server(const char *name, int fd, pid_t root);
/* Whether the signal is one by which a terminal stops a job. */
int signal_stops(int number);
/* Stops this process by a signal that it blocks, so that the shell or launcher sees it. As for any
 * program, the kernel ignores the signal in an orphaned process group, where no process could
 * continue this one. */
void signal_stop_self(int number);

/* ---- mpi_defaults.c: settings that MPI libraries need in one address space ---- */

/* Sets them in the environment of the calling process. A value set by the user wins. ranks: of the
 * job on this node. */
void mpi_defaults_set(unsigned ranks);
/* Lets MPI_Init give MPI_THREAD_MULTIPLE, unless the user's variables say otherwise. 0 or -1. */
int mpi_defaults_set_threads(void);
/* Describes what mpi_defaults_set, called next, will set and leave. */
void mpi_defaults_describe(unsigned ranks, char *text, size_t size);

/* ---- topology.c: what hwloc knows of the machine ---- */

/* The CPUs of task `number` of `count` under `policy`: "none", "core" (one core each, spread over
 * the machine), or a list "0,2-4" whose entries are assigned round-robin. 1 when *cpus was set, 0
 * when the task is not bound, -EINVAL with *message for a bad policy. number -1: unknown; then only
 * a list of one CPU can be obeyed. */
int cpu_binding_find(const char *policy, int number, int count, cpu_set_t *cpus, char *message,
                     size_t size);

/* By the root of several ranks before it makes the space: starts the process that reads the
 * topology once for all, when the first of them asks for it. Where it fails, each reads it. */
void topology_server_start(void);
/* The variables by which a task's hwloc finds that topology, to add to the task's environment; NULL
 * where the user has chosen otherwise in that environment, or no process offers it. Static. */
enum { TOPOLOGY_VARIABLES = 4 };
void topology_variables(char *const *environment, const char *variables[TOPOLOGY_VARIABLES]);

/* ---- shm_server.c: the space keeps its tasks' files below /dev/shm ---- */

#define SHM_ENV "ONESPACE_SHM" /* --shm: auto (default), space or system */

/* Whether it does in a job of so many ranks on this node. *why: what the system's directory lacks;
 * empty if that did not decide. */
int shm_is_kept_by_space(unsigned ranks, char *why, size_t size);
/* By the root before it makes the space: starts the server, if the space keeps the files. 0; or
 * -errno if the user has demanded it and it is impossible. */
int shm_server_start(unsigned ranks);
/* By the root when it has made the space: tells tasks of the server. */
void shm_server_publish(void);

/* ---- shim.c: stands in for a task that runs in the host of a named space ---- */

struct shim_task {
    const char *space; /* its name */
    char *const *argv; /* program and arguments */
    unsigned flags;    /* ONESPACE_SPAWN_* */
    size_t stack_size;
    int launcher;       /* pid of the launcher on this node, or 0 */
    int number, ntasks; /* for ONESPACE_TASK_ID, or -1 */
    const char *launch; /* a name that the ranks of one launcher have in common */
    enum report_detail stats;
    const char *bind; /* --cpu-bind, or NULL */
    int is_process;   /* the program replaces this process, and is no task */
};

/* Runs the task and returns its exit status. If a signal killed the task, the same signal kills
 * this process. Prints failures on standard error. */
int shim_run(const struct shim_task *task);

/* ---- standalone.c: this process makes the space and is its root ---- */

enum { RUN_SEGMENTS_MAX = 64 };

struct run_segment { /* one program */
    char **argv;
    int count;
    unsigned flags; /* ONESPACE_SPAWN_* */
    size_t stack_size;
};

/* The command line of `onespace run`. */
struct run_options {
    struct run_segment segments[RUN_SEGMENTS_MAX];
    int segment_count;
    int count_given; /* by -n: a standalone run, even under a launcher */
    const char *space, *bind;
    int kill_on_failure, verbose;
    enum report_detail stats;
    int thread_mode; /* standalone: tasks are threads of this process */
};

/* The tasks of all segments. */
unsigned standalone_count(const struct run_options *run);
/* Makes the space: 0, or an exit status with a message. */
int standalone_begin(unsigned ranks);
/* Runs all programs in the space. Returns the exit status. *completed: all tasks were started and
 * waited for. */
int standalone_run(const struct run_options *run, int *completed);
/* Ends the space, if the run completed. */
void standalone_end(int completed);

/* ---- host.c: the host of a named space ---- */

/* Serves on the listening socket until the last task has ended and the last shim is gone, then
 * removes the socket. While fewer than `expected` tasks have come, it waits longer, as long as
 * process `launcher` lives (0: unknown). Returns an exit status. */
int host_serve(int listener, const char *directory, const char *name, int expected, int launcher);

/* ---- connect.c: finds or starts the host of a named space ---- */

/* The end of a message: what to do if the directory cannot be made or written to. */
#define RUNTIME_DIR_FIX                                                                            \
    ": set XDG_RUNTIME_DIR to a local directory of yours that can be written, with mode 0700"

/* The directory of the sockets of a user's spaces. It must be the user's alone (mode 0700, no
 * link). Finds an existing one: 0, or -errno. */
int runtime_dir_find(char *path, size_t size);
/* Makes it if needed: in XDG_RUNTIME_DIR, else in /tmp, with another name if another user has taken
 * the usual one. 0, -ESTALE: it was removed meanwhile, try again; or another -errno with *message.
 */
int runtime_dir_open(char *path, size_t size, char *message, size_t message_size);
/* Takes the directory's lock, which orders the start and the end of hosts: a descriptor to close,
 * or -errno. -ESTALE: the directory was removed meanwhile, open it again. -EPERM: it is another
 * user's. */
int runtime_dir_lock(const char *path);
/* Removes the sockets on which no process listens, of hosts that were killed, and the directory if
 * none is left. The caller holds the directory's lock. */
void runtime_dir_remove_dead_sockets(const char *directory);

/* Connects to the host of space `name` if there is one: a socket or -errno. */
int host_find(const char *name);
/* Connects to the host of space `name`; starts it if there is none. A socket, or -errno with a
 * message. */
int host_connect(const char *name, int launcher, int expected, char *message, size_t size);
/* Removes the sockets of hosts that were killed, after the host of space `name` has ended. */
void host_clean_up(const char *name);

#endif
