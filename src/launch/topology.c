/* src/launch/topology.c: what hwloc knows of the machine: cores to bind ranks to (--cpu-bind), and
 * the topology, which is read once for all ranks. */
#include "launch/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc/glibc-sched.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- hwloc ----
 *
 * hwloc is loaded only where it is needed. A shim stays in memory beside each task, and hwloc with
 * the libraries that it needs would be a seventh of its memory.
 *
 * hwloc's inline functions call the others by name, so those are defined here and call the loaded
 * ones. */

#if HWLOC_API_VERSION < 0x00020000 || HWLOC_API_VERSION >= 0x00030000
#error "name the library of this version of hwloc"
#endif

#define LIBRARY "libhwloc.so.15" /* of all versions 2.x */

/* FUNCTION(result, name without hwloc_, parameters, arguments) */
#define HWLOC_FUNCTIONS(FUNCTION)                                                                  \
    FUNCTION(int, topology_init, (hwloc_topology_t * topology), (topology))                        \
    FUNCTION(int, topology_load, (hwloc_topology_t topology), (topology))                          \
    FUNCTION(int, topology_set_flags, (hwloc_topology_t topology, unsigned long flags),            \
             (topology, flags))                                                                    \
    FUNCTION(int, topology_set_all_types_filter,                                                   \
             (hwloc_topology_t topology, enum hwloc_type_filter_e filter), (topology, filter))     \
    FUNCTION(int, topology_export_xmlbuffer,                                                       \
             (hwloc_topology_t topology, char **xmlbuffer, int *buflen, unsigned long flags),      \
             (topology, xmlbuffer, buflen, flags))                                                 \
    FUNCTION(void, topology_destroy, (hwloc_topology_t topology), (topology))                      \
    FUNCTION(hwloc_obj_t, get_obj_by_depth, (hwloc_topology_t topology, int depth, unsigned idx),  \
             (topology, depth, idx))                                                               \
    FUNCTION(int, obj_type_is_normal, (hwloc_obj_type_t type), (type))                             \
    FUNCTION(hwloc_bitmap_t, bitmap_dup, (hwloc_const_bitmap_t bitmap), (bitmap))                  \
    FUNCTION(void, bitmap_free, (hwloc_bitmap_t bitmap), (bitmap))                                 \
    FUNCTION(int, bitmap_or,                                                                       \
             (hwloc_bitmap_t res, hwloc_const_bitmap_t bitmap1, hwloc_const_bitmap_t bitmap2),     \
             (res, bitmap1, bitmap2))                                                              \
    FUNCTION(int, bitmap_singlify, (hwloc_bitmap_t bitmap), (bitmap))                              \
    FUNCTION(int, bitmap_first, (hwloc_const_bitmap_t bitmap), (bitmap))                           \
    FUNCTION(int, bitmap_next, (hwloc_const_bitmap_t bitmap, int prev), (bitmap, prev))            \
    FUNCTION(int, bitmap_weight, (hwloc_const_bitmap_t bitmap), (bitmap))

#define LOADED(result, name, parameters, arguments) static __typeof__(hwloc_##name) *loaded_##name;
HWLOC_FUNCTIONS(LOADED)

#define DEFINE(result, name, parameters, arguments)                                                \
    result hwloc_##name parameters                                                                 \
    {                                                                                              \
        return loaded_##name arguments;                                                            \
    }
HWLOC_FUNCTIONS(DEFINE)

/* scope: RTLD_GLOBAL, so that hwloc can load its plugins, or RTLD_LOCAL. */
static int hwloc_load(int scope, char *message, size_t size)
{
#define ADDRESS(result, name, parameters, arguments) {"hwloc_" #name, &loaded_##name},
    static const struct {
        const char *name;
        void *function; /* a pointer to one */
    } wanted[] = {HWLOC_FUNCTIONS(ADDRESS)};
    static void *library;
    if (!library)
        library = dlopen(LIBRARY, RTLD_NOW | scope);
    for (size_t i = 0; library && i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (!(*(void **)wanted[i].function = dlsym(library, wanted[i].name)))
            library = NULL;
    if (library)
        return 0;
    snprintf(message, size, "--cpu-bind core needs hwloc: %s", dlerror());
    return -1;
}

/* ---- --cpu-bind ---- */

/* The ranks would all be bound to the same CPU. */
static int refuse_unnumbered(const char *policy, char *message, size_t size)
{
    snprintf(message, size,
             "--cpu-bind %s: nothing says which of the node's ranks this is: let the launcher bind "
             "it, or name one CPU",
             policy);
    return -EINVAL;
}

/* Reading the topology takes milliseconds, so the machine is divided among `part_count` tasks once.
 */
static hwloc_topology_t machine;
static hwloc_bitmap_t *parts;
static int part_count;

static int divide(int count, char *message, size_t size)
{
    if (part_count == count)
        return 0;
    if (hwloc_load(RTLD_LOCAL, message, size) != 0)
        return -EINVAL;
    if (!machine && (hwloc_topology_init(&machine) != 0 || hwloc_topology_load(machine) != 0)) {
        snprintf(message, size, "cannot read the machine's topology");
        machine = NULL;
        return -EINVAL;
    }
    for (int i = 0; i < part_count; i++)
        hwloc_bitmap_free(parts[i]);
    free(parts);
    part_count = 0;
    parts = calloc((size_t)count, sizeof(*parts));
    hwloc_obj_t root = hwloc_get_root_obj(machine);
    if (!parts || hwloc_distrib(machine, &root, 1, parts, (unsigned)count, INT_MAX, 0) != 0) {
        snprintf(message, size, "--cpu-bind core: cannot divide the machine among %d tasks", count);
        return -ENOMEM;
    }
    part_count = count;
    return 0;
}

static int bind_to_core(int number, int count, cpu_set_t *cpus, char *message, size_t size)
{
    if (number < 0)
        return refuse_unnumbered("core", message, size);
    int result = divide(count, message, size);
    if (result < 0)
        return result;
    hwloc_bitmap_singlify(parts[number]);
    hwloc_cpuset_to_glibc_sched_affinity(machine, parts[number], cpus, sizeof(*cpus));
    return 1;
}

static int bind_to_list(const char *list, int number, cpu_set_t *cpus, char *message, size_t size)
{
    int listed[CPU_SETSIZE], count = 0;
    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end != at && *end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        if (end == at || first < 0 || last < first || last >= CPU_SETSIZE ||
            (*end && *end != ',')) {
            snprintf(message, size,
                     "--cpu-bind %s: not 'none', 'core' or a list of CPUs such as 0,2-4", list);
            return -EINVAL;
        }
        for (long cpu = first; cpu <= last && count < CPU_SETSIZE; cpu++)
            listed[count++] = (int)cpu;
        at = *end ? end + 1 : end;
    }
    if (count == 0) {
        snprintf(message, size, "--cpu-bind: the list of CPUs is empty");
        return -EINVAL;
    }
    if (number < 0 && count > 1)
        return refuse_unnumbered(list, message, size);
    CPU_ZERO(cpus);
    CPU_SET(listed[number < 0 ? 0 : number % count], cpus);
    return 1;
}

int cpu_binding_find(const char *policy, int number, int count, cpu_set_t *cpus, char *message,
                     size_t size)
{
    if (!policy || strcmp(policy, "none") == 0)
        return 0;
    if (strcmp(policy, "core") == 0)
        return bind_to_core(number, count, cpus, message, size);
    return bind_to_list(policy, number, cpus, message, size);
}

/* ---- The topology for all ranks ----
 *
 * In MPI_Init each rank's hwloc reads hundreds of files of /sys and executes cpuid on each CPU: a
 * quarter of the CPU time of a rank's start, or more. If HWLOC_XMLFILE names a file, hwloc reads
 * that instead. Here it is a file in the memory of a child of the root, the server.
 *
 * The server holds a write lease on the file (fcntl(2), F_SETLEASE). The first rank that opens the
 * file makes the kernel wake up the server, which has the topology read and written, and then gives
 * up the lease; until then the kernel holds the ranks in open(). So nothing is read for programs
 * that do not ask.
 *
 * hwloc reads /sys as ever if it cannot open the file, but fails if there is no topology in it. So
 * the file must have one before the kernel ends the lease by itself, lease-break-time after that
 * open(). Another process writes it, because plugins of hwloc may crash or hang. If it has not
 * succeeded in half of that time, one more tries without plugins; if there can be no process, the
 * server itself does. The processes finish if the server is killed meanwhile, because they hold the
 * lease, too; an alarm ends one that hangs then.
 *
 * The file lists the whole machine. HWLOC_THISSYSTEM_ALLOWED_RESOURCES makes each rank's hwloc ask
 * which CPUs and nodes its own cgroup allows. Versions 1 of hwloc would fail at this file; they,
 * and only they, obey HWLOC_FORCE_FSROOT, and read /sys. */

/* In the server. A process that gets its PID later hardly has a descriptor of this number. */
enum { TOPOLOGY_FD = 907 };

static char xmlfile_variable[64]; /* empty: there is no server */
static int ready = -1;            /* a pipe: a byte when the server has the lease, else its end */

/* A user who sets one of these has chosen what hwloc reads. */
static const char *const hwloc_variables[] = {
    "HWLOC_XMLFILE=",    "HWLOC_SYNTHETIC=",    "HWLOC_FSROOT=",       "HWLOC_COMPONENTS=",
    "HWLOC_THISSYSTEM=", "HWLOC_FORCE_FSROOT=", "HWLOC_FORCE_XMLFILE="};

/* Everything: each rank's hwloc leaves out what its program does not ask for and what its cgroup
 * does not allow. */
static int write_topology(void)
{
    char *xml;
    hwloc_topology_t topology;
    int size; /* with the final zero */
    if (hwloc_topology_init(&topology) != 0 ||
        hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc_topology_load(topology) != 0 ||
        hwloc_topology_export_xmlbuffer(topology, &xml, &size, 0) != 0)
        return EXIT_FAILURE;
    int is_written =
        ftruncate(TOPOLOGY_FD, 0) == 0 && pwrite(TOPOLOGY_FD, xml, (size_t)size - 1, 0) == size - 1;
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void end_after(int seconds)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    alarm((unsigned)seconds);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int write_without_plugins(void)
{
    setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
    return write_topology();
}

/* Whether a process has written the file in so many milliseconds; else it is killed. */
static int have_topology_written(int with_plugins, int timeout_ms)
{
    int pidfd, status = -1;
    struct stat file;
    pid_t writer = fork();
    if (writer == 0) {
        end_after(timeout_ms / 1000 + 1);
        _exit(with_plugins ? write_topology() : write_without_plugins());
    }
    if (writer < 0)
        return !with_plugins && write_without_plugins() == EXIT_SUCCESS;
    pidfd = (int)syscall(SYS_pidfd_open, writer, 0);
    struct pollfd end = {pidfd, POLLIN, 0};
    if (pidfd >= 0 && poll(&end, 1, timeout_ms) == 0)
        kill(writer, SIGKILL);
    while (waitpid(writer, &status, 0) < 0 && errno == EINTR)
        ;
    if (pidfd >= 0)
        close(pidfd);
    return status == 0 && fstat(TOPOLOGY_FD, &file) == 0 && file.st_size > 0;
}

/* Half of the time in which a lease must be given up, in milliseconds. */
static int half_lease_break_ms(void)
{
    int seconds = 0;
    FILE *file = fopen("/proc/sys/fs/lease-break-time", "re");
    if (file && fscanf(file, "%d", &seconds) != 1)
        seconds = 0;
    if (file)
        fclose(file);
    if (seconds <= 0)
        seconds = 45; /* the kernel's default; at 0 it never ends a lease by itself */
    return seconds > 3600 ? 1800000 : seconds * 500;
}

/* Whether the limit on the size of files leaves room for the topology of a large machine. */
static int raise_size_limit(void)
{
    enum { TOPOLOGY_MAX_BYTES = 64 << 20 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    return limit.rlim_max >= TOPOLOGY_MAX_BYTES && setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

static _Noreturn void become_topology_server(int report, pid_t root)
{
    char message[256], path[64];
    sigset_t lease_break;
    become_server("onespace-topo", report, root);
    /* The kernel leases no file that is open twice, and counts only openings by a path. */
    int made = memfd_create("topology.xml", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", made);
    int file = open(path, O_RDWR | O_CLOEXEC);
    close(made);
    sigemptyset(&lease_break);
    sigaddset(&lease_break, SIGIO);
    if (!raise_size_limit() || hwloc_load(RTLD_GLOBAL, message, sizeof(message)) != 0 ||
        dup2(file, TOPOLOGY_FD) < 0 || close(file) != 0 ||
        fcntl(TOPOLOGY_FD, F_SETLEASE, F_WRLCK) != 0 || write(SERVER_FD, "", 1) != 1)
        _exit(EXIT_FAILURE);
    close(SERVER_FD);
    while (sigwaitinfo(&lease_break, NULL) < 0)
        ;
    int half_ms = half_lease_break_ms();
    if (!have_topology_written(1, half_ms) && !have_topology_written(0, half_ms))
        _exit(EXIT_FAILURE); /* ranks that open it from now on read /sys */
    (void)fcntl(TOPOLOGY_FD, F_SETLEASE, F_UNLCK);
    for (;;)
        pause();
}

void topology_server_start(void)
{
    int ends[2];
    pid_t root = getpid(), server;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    server = fork();
    if (server == 0)
        become_topology_server(ends[1], root);
    close(ends[1]);
    ready = ends[0];
    if (server > 0)
        snprintf(xmlfile_variable, sizeof(xmlfile_variable), "HWLOC_XMLFILE=/proc/%d/fd/%d", server,
                 TOPOLOGY_FD);
}

/* Waits for the server, which loads hwloc while the root makes the space. */
static int server_is_ready(void)
{
    char byte;
    if (ready >= 0) {
        if (read(ready, &byte, 1) != 1)
            xmlfile_variable[0] = 0;
        close(ready);
        ready = -1;
    }
    return xmlfile_variable[0] != 0;
}

void topology_variables(char *const *environment, const char *variables[TOPOLOGY_VARIABLES])
{
    memset(variables, 0, TOPOLOGY_VARIABLES * sizeof(variables[0]));
    if (!server_is_ready())
        return;
    for (char *const *given = environment; *given; given++)
        for (size_t i = 0; i < sizeof(hwloc_variables) / sizeof(hwloc_variables[0]); i++)
            if (strncmp(*given, hwloc_variables[i], strlen(hwloc_variables[i])) == 0)
                return;
    variables[0] = xmlfile_variable;
    variables[1] = "HWLOC_THISSYSTEM=1";
    variables[2] = "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1";
    variables[3] = "HWLOC_FORCE_FSROOT=/";
}
