/* src/agent/mpi.c: MPI libraries in a task: the jumps to the MPI layer, launchers of another MPI,
 * settings of transports, and yielding in polls.
 *
 * The agent exports a jump under the name of each function that the layer (src/mpi) wraps, and
 * precedes any MPI library in symbol lookup; so it does not matter when, how and in which language
 * the program gets its MPI. A call that creates a window, a collective operation unless these are
 * left to the library, or a call that waits while CPUs are oversubscribed or with --progress, loads
 * the layer for the MPI library that is present. Until then, and with --mpi-layer off, the jumps
 * lead to the MPI library. Functions with large counts that the library lacks always lead to the
 * layer, because a program that looks for them finds the jumps. */
#include <fcntl.h>
#include <linux/limits.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "agent/agent.h"
#include "arch/constants.h"
#include "base/futex.h"
#include "base/text.h"
#include "mpi/names/functions.h"
#include "onespace.h"
#include "space/layout.h"

/* libc's; any program with an MPI library has them. */
extern char *getenv(const char *) WEAK;
extern int setenv(const char *, const char *, int) WEAK;
extern int dlclose(void *) WEAK;

static const char names[] =
#define NAMES(name) "MPI_" #name "\0PMPI_" #name "\0"
#define NAME(name)  #name "\0"
    MPI_LOADING(NAMES) MPI_LOADING_LARGE(NAMES) MPI_COLLECTIVES(NAMES) MPI_COLLECTIVES_LARGE(NAMES)
        MPI_NONBLOCKING(NAMES) MPI_WAITING(NAMES) MPI_WAITING_LARGE(NAMES) MPI_FORWARDED(NAMES)
            MPI_FORWARDED_LARGE(NAMES) MPI_ONESPACE(NAME) MPI_FORTRAN(NAME) MPI_INTERNAL(NAME);

enum {
#define TWO(name) +2
#define ONE(name) +1
    /* Indices at which the groups of names end. */
    LOADING_END = 0 MPI_LOADING(TWO) MPI_LOADING_LARGE(TWO),
    COLLECTIVES_END =
        LOADING_END MPI_COLLECTIVES(TWO) MPI_COLLECTIVES_LARGE(TWO) MPI_NONBLOCKING(TWO),
    WAITING_END = COLLECTIVES_END MPI_WAITING(TWO) MPI_WAITING_LARGE(TWO),
    MPI_C_END = WAITING_END MPI_FORWARDED(TWO) MPI_FORWARDED_LARGE(TWO) MPI_ONESPACE(ONE),
    FORTRAN_END = MPI_C_END MPI_FORTRAN(ONE),
    TARGETS = FORTRAN_END MPI_INTERNAL(ONE),
};

/* The target of each jump, 0: not known. Written by mpi_resolve and load_layer, read by the jumps.
 *
 * No lock is held, because dlopen and dlsym may wait for a thread that loads a library and whose
 * constructors call MPI. Instead each target is stored before `layer` is read, and `layer` is
 * written before all targets are forgotten, sequentially consistent: either the thread that stores
 * a target notices that the layer has come, or its target is forgotten. */
__attribute__((visibility("hidden"))) _Atomic(void *) mpi_targets[TARGETS];
__attribute__((visibility("hidden"))) void *mpi_resolve(unsigned index, const void *caller);

static _Atomic(void *) layer;
static _Atomic int layer_failed; /* it cannot be loaded */

static void print_message(const char *what, const char *name, const char *why)
{
    const char *parts[] = {"onespace: ", what, " ", name, ": ", why, "\n"};
    struct iovec pieces[7];
    for (int i = 0; i < 7; i++)
        pieces[i] = (struct iovec){(void *)parts[i], text_length(parts[i])};
    raw(__NR_writev, 2, pieces, 7);
}

/* ---- A launcher that does not start this MPI's ranks ----
 *
 * Each rank is then an MPI job of its own, rank 0 of 1, and most MPI libraries say nothing. The
 * launcher is known by the variables that it sets for each rank. */

static int is_set(const char *variable)
{
    return getenv(variable) != NULL;
}

static int is_first_of_several(const char *rank, const char *count)
{
    const char *number = getenv(rank), *size = getenv(count);
    return number && size && text_equal(number, "0") && !text_equal(size, "1");
}

/* As this task's start found it: MPI_Init of a rank that is alone sets variables, too. */
static struct {
    enum { NO_LAUNCHER, HYDRA, MPIRUN, SRUN } kind; /* if this is the first of several ranks */
    int has_pmi, has_pmix;
} launcher;

static void find_launcher(void)
{
    if (is_set("MPI_LOCALNRANKS") && is_first_of_several("PMI_RANK", "PMI_SIZE"))
        launcher.kind = HYDRA;
    else if (is_first_of_several("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
        launcher.kind = MPIRUN;
    else if (is_first_of_several("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
        launcher.kind = SRUN;
    if (launcher.kind == NO_LAUNCHER)
        return;
    launcher.has_pmix = is_set("PMIX_RANK");
    launcher.has_pmi =
        is_set("PMI_RANK") || is_set("PMI_FD") || is_set("PMI_ID") || is_set("PMI_PORT");
}

/* dl_iterate_phdr's callback: stops at an object whose file has this soname up to its version. */
static int has_soname(struct dl_phdr_info *info, size_t size, void *soname)
{
    (void)size;
    const char *file = info->dlpi_name ? text_basename(info->dlpi_name) : "";
    for (const char *name = soname; *name && *name == *file; name++, file++)
        if (text_skip_prefix(name, ".so"))
            return text_skip_prefix(file, ".so") != NULL;
    return 0;
}

/* A handle of a library that is loaded, to be closed; NULL if it is not. dlopen alone would search
 * the file system for a library that is not loaded, and open its file if it is installed: more than
 * 20 us. */
static void *open_loaded(const char *soname)
{
    if (dl_iterate_phdr && !dl_iterate_phdr(has_soname, (void *)soname))
        return NULL;
    return dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
}

static int is_loaded(const char *soname)
{
    void *library = open_loaded(soname);
    if (library)
        dlclose(library);
    return library != NULL;
}

/* Whether an MPI of MPICH's family can use PMIx: it is linked with it, or is an Intel MPI that was
 * given a library. */
static int mpich_has_pmix(void)
{
    return is_loaded("libpmix.so.2") || is_set("I_MPI_PMI_LIBRARY") || is_set("I_MPI_PMI");
}

/* Whether the ranks can find one another. If one launcher has started another, they have the
 * variables of both, and it is assumed that they can. Slurm's own library for PMI needs no more
 * than what srun sets; Open MPI before 5, which has no sessions, loads it late. */
static int launcher_can_be_right(void *library, int is_openmpi)
{
    if (launcher.has_pmix && (is_openmpi || mpich_has_pmix()))
        return 1;
    if (launcher.kind == SRUN &&
        (is_loaded("libpmi.so.0") || is_loaded("libpmi2.so.0") || is_set("I_MPI_PMI_LIBRARY") ||
         is_set("PALS_RANKID") || is_set("PMI_CONTROL_PORT") ||
         (is_openmpi && !dlsym(library, "MPI_Session_init"))))
        return 1;
    return launcher.has_pmi && !(is_openmpi && launcher.kind == HYDRA);
}

/* At the first sight of the MPI library. The first rank speaks for all. */
static void warn_of_launcher(void *library, const char *layer_name)
{
    static const char *const advice[] = {
        [HYDRA] = "its ranks do not find one another when mpiexec of MPICH or Intel MPI starts "
                  "them: use mpirun of Open MPI, or onespace mpiexec",
        [MPIRUN] = "its ranks do not find one another when mpirun of Open MPI starts them: use "
                   "mpiexec of its own MPI, or onespace mpiexec",
        [SRUN] = "its ranks do not find one another when srun starts them in this way: use srun "
                 "--mpi=TYPE with a type of srun --mpi=list that this MPI knows",
    };
    int is_openmpi = text_equal(layer_name, "libonespace-mpi-openmpi.so");
    int is_mpich = text_equal(layer_name, "libonespace-mpi-mpich.so");
    if (launcher.kind != NO_LAUNCHER && (is_openmpi || is_mpich) &&
        !launcher_can_be_right(library, is_openmpi))
        print_message("this program uses", is_openmpi ? "Open MPI" : "MPICH or Intel MPI",
                      advice[launcher.kind]);
}

/* The MPI library that the program has, and the layer's name for it. Once found it stays loaded, by
 * the reference taken here. */
static void *find_library(const char **layer_name)
{
    static _Atomic(void *) found; /* with release, after its name */
    static _Atomic(const char *) found_layer;
    void *library = atomic_load_explicit(&found, memory_order_acquire);
    if (library) {
        *layer_name = atomic_load_explicit(&found_layer, memory_order_relaxed);
        return library;
    }
    static const char libraries[] =
#define LIBRARY(soname, file) soname "\0" file "\0"
        MPI_LIBRARIES(LIBRARY);
    const char *soname = libraries;
    for (; *soname; soname = *layer_name + text_length(*layer_name) + 1) {
        *layer_name = soname + text_length(soname) + 1;
        library = open_loaded(soname);
        if (library) {
            atomic_store_explicit(&found_layer, *layer_name, memory_order_relaxed);
            if (!atomic_exchange_explicit(&found, library, memory_order_acq_rel))
                warn_of_launcher(library, *layer_name);
            return library;
        }
    }
    return NULL;
}

static const char *name_of(unsigned index)
{
    const char *name = names;
    while (index--)
        name += text_length(name) + 1;
    return name;
}

static int lower(int letter)
{
    return letter >= 'A' && letter <= 'Z' ? letter + 'a' - 'A' : letter;
}

/* Whether ONESPACE_COLLECTIVES_OFF names the collective operation: MPI_NAME, PMPI_NAME, or that
 * with _c. */
static int is_turned_off(const char *function)
{
    const char *list = getenv ? getenv(COLLECTIVES_OFF_ENV) : NULL;
    const char *name = function + (*function == 'P') + 4; /* MPI_ */
    size_t length = text_length(name);
    if (length > 2 && text_equal(name + length - 2, "_c"))
        length -= 2;
    for (size_t i = 0; list && *list; list++) {
        if (*list == ',')
            i = 0;
        else
            i = i <= length && lower(*list) == lower(name[i]) ? i + 1 : length + 1;
        if (i == length && (list[1] == ',' || !list[1]))
            return 1;
    }
    return 0;
}

/* Whether the first call of the function with this index loads the layer. */
static int loads_layer(unsigned index)
{
    if (!agent_space || (agent_self->flags & ONESPACE_SPAWN_NO_MPI_LAYER) || index >= WAITING_END)
        return 0;
    if (index >= COLLECTIVES_END)
        return (agent_self->flags & ONESPACE_SPAWN_PROGRESS) ||
               atomic_load_explicit(&agent_space->oversubscribed, memory_order_relaxed);
    return index < LOADING_END ||
           ((agent_self->flags & ONESPACE_SPAWN_COLLECTIVES) && !is_turned_off(name_of(index)));
}

/* Bypasses the layer for calls that it would only forward. */
static int is_only_forwarded(unsigned index)
{
    return index >= LOADING_END && index < WAITING_END && !loads_layer(index);
}

static void load_layer(const char *name)
{
    char path[PATH_MAX];
    /* It may be not installed for this MPI: see `onespace doctor`. */
    int is_installed = sibling_path(name, path, sizeof(path)) == 0 &&
                       raw(__NR_faccessat, AT_FDCWD, path, 4 /* R_OK */) == 0;
    void *loaded = is_installed ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!loaded) {
        if (!atomic_exchange(&layer_failed, 1) && is_installed)
            print_message("the MPI layer is left out, cannot load", path,
                          dlerror ? dlerror() : "?");
        return;
    }
    int is_first = !atomic_exchange(&layer, loaded);
    /* Each is resolved again at its next use, and is the layer's then. */
    for (unsigned i = 0; is_first && i < TARGETS; i++)
        atomic_store(&mpi_targets[i], NULL);
}

/* Open MPI 5 and later, built without support for components in files: adds ours before the library
 * searches its own. */
static void add_smsc_component(void *library)
{
    char path[PATH_MAX];
    if (!dlsym(library, "opal_smsc_base_framework") ||
        dlsym(library, "mca_base_component_repository_item_t_class") ||
        sibling_path("onespace/openmpi/mca_smsc_onespace.so", path, sizeof(path)) < 0 ||
        raw(__NR_faccessat, AT_FDCWD, path, 4 /* R_OK */) < 0)
        return;
    void *component = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*join)(void *) =
        component ? (void (*)(void *))dlsym(component, "onespace_smsc_join") : NULL;
    if (join)
        join(library);
    else
        print_message("Open MPI copies between tasks without", path, dlerror ? dlerror() : "?");
}

/* The function `name` of the library that contains `caller`, which may be in no scope that dlsym
 * searches, as when Python has loaded it. */
static void *find_internal(const char *name, const void *caller)
{
    Dl_info info;
    void *library = dladdr && dladdr(caller, &info) && info.dli_fname
                        ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    if (library)
        add_smsc_component(library);
    void *own = library ? dlsym(library, name) : NULL;
    return own ? own : dlsym(RTLD_NEXT, name);
}

/* Another library with the name comes first: a tool that wraps MPI_NAME and calls PMPI_NAME, or a
 * copy of the layer that the program is linked with. */
static void *find_target(unsigned index, const char *name, void *library)
{
    /* Open MPI has its Fortran bindings in a library of their own. */
    void *fortran = library && index >= MPI_C_END
                        ? dlopen("libmpi_mpifh.so.40", RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    void *next = dlsym(RTLD_NEXT, name);
    void *own = library ? dlsym(fortran ? fortran : library, name) : NULL;
    if (next && next != own)
        return next;
    void *loaded = atomic_load(&layer);
    void *wrapped = loaded && !(own && is_only_forwarded(index)) ? dlsym(loaded, name) : NULL;
    return wrapped ? wrapped : own ? own : next;
}

/* A function of MPI's, which may lead to the layer. */
static void *find_function(unsigned index, const char *name)
{
    const char *layer_name = NULL;
    void *library = find_library(&layer_name);
    int is_needed = library && loads_layer(index);
    is_needed |= library && index < MPI_C_END && !dlsym(library, name);
    if (is_needed && !atomic_load(&layer) && !atomic_load(&layer_failed))
        load_layer(layer_name);
    return find_target(index, name, library);
}

/* The target of the jump with this index. `caller`: the address to which the jump's call returns.
 * Called once for each jump, again if the layer is loaded afterwards, and by each thread that comes
 * before the first has found it. */
void *mpi_resolve(unsigned index, const void *caller)
{
    const char *name = name_of(index);
    if (!dlopen || !dlsym) {
        print_message("cannot find", name, "this libc has no dlsym");
        for (;;)
            raw(__NR_exit_group, 127);
    }
    void *target, *layer_before;
    do {
        layer_before = atomic_load(&layer);
        target = index >= FORTRAN_END ? find_internal(name, caller) : find_function(index, name);
        atomic_store(&mpi_targets[index], target);
    } while (atomic_load(&layer) != layer_before);
    if (!target) {
        print_message("cannot find", name,
                      "the program calls it, but none of its libraries has it");
        raw(__NR_exit_group, 127);
    }
    return target;
}

/* Before the program starts. A program that loads its MPI later, as Python does, is warned by its
 * first call of a function that the layer wraps. */
void check_launcher(void)
{
    const char *layer_name;
    if (!dlopen || !dlclose || !getenv)
        return;
    find_launcher();
    if (launcher.kind != NO_LAUNCHER)
        find_library(&layer_name);
}

/* ---- Settings of communication libraries ----
 *
 * UCX uses POSIX shared memory, but no System V segments. It creates a segment of each kind for
 * each rank, and a connection uses one of them. The kernel handles a page fault in POSIX shared
 * memory under a lock of that mapping, but one in a System V segment under the lock of the whole
 * map (shm_vm_ops has no map_pages), for which all tasks wait. Nothing is lost, because UCX does
 * not start where either kind is missing. UCX can exclude single transports since 1.11. A user's
 * UCX_TLS wins. */

typedef void version_function(unsigned *major, unsigned *minor, unsigned *release);

static int can_exclude_transports(void *ucx)
{
    version_function *get_version = (version_function *)dlsym(ucx, "ucp_get_version");
    unsigned major = 0, minor = 0, release = 0;
    if (get_version)
        get_version(&major, &minor, &release);
    return major > 1 || (major == 1 && minor >= 11);
}

void disable_ucx_sysv(void)
{
    if (!agent_low || !dlopen || !dlsym || !dlclose || !getenv || !setenv || getenv("UCX_TLS"))
        return;
    void *ucx = open_loaded("libucp.so.0");
    if (!ucx)
        return;
    if (can_exclude_transports(ucx))
        setenv("UCX_TLS", "^sysv", 0);
    dlclose(ucx);
}

/* Open MPI's OpenSHMEM maps its symmetric heap over whatever lies at 0xff000000, in each process.
 * In one address space all tasks would get the heap of the last one, so each task's heap gets an
 * address in the middle of its own mappings. The addresses may differ between tasks. */
void place_symmetric_heap(void)
{
    static const char setting[] = "OMPI_MCA_sshmem_base_start_address";
    uintptr_t address = agent_low + (LAYOUT_MAPPINGS + LAYOUT_BREAK) / 2;
    char digits[24];
    if (!agent_low || !dlopen || !dlclose || !getenv || !setenv || getenv(setting) ||
        getenv("OMPI_MCA_memheap_base_start_address"))
        return;
    void *openshmem = open_loaded("liboshmem.so.40");
    if (!openshmem)
        return;
    text_append_number(digits, address, 10);
    setenv(setting, digits, 0);
    dlclose(openshmem);
}

/* ---- Polls yield the CPU when CPUs are oversubscribed ----
 *
 * MPI libraries poll for messages from other nodes in loops, by epoll_wait with a timeout of 0. If
 * tasks outnumber CPUs, a rank that finds nothing keeps its CPU from tasks that have something to
 * do, perhaps from its own peer; so it yields the CPU, as other libraries do by sched_yield. The
 * host writes `oversubscribed` of the space, which is read here as a hint, relaxed. */

typedef int epoll_wait_function(int, struct epoll_event *, int, int);

/* libc's own, found at the first call. Relaxed: all threads find the same address. */
static epoll_wait_function *_Atomic real_epoll_wait;

static epoll_wait_function *find_epoll_wait(void)
{
    epoll_wait_function *real = atomic_load_explicit(&real_epoll_wait, memory_order_relaxed);
    if (!real && dlsym) {
        real = (epoll_wait_function *)dlsym(RTLD_NEXT, "epoll_wait");
        atomic_store_explicit(&real_epoll_wait, real, memory_order_relaxed);
    }
    return real;
}

/* Calls libc's function, which is a cancellation point, unless the program has no dlsym (glibc 2.33
 * and older). */
static int wait_for_events(int epoll, struct epoll_event *events, int max_events, int timeout)
{
    epoll_wait_function *real = find_epoll_wait();
    if (real)
        return real(epoll, events, max_events, timeout);
    long result =
        raw(__NR_epoll_pwait, epoll, events, max_events, timeout, NULL, ARCH_SIGNAL_SET_BYTES);
    if (result >= 0)
        return (int)result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

EXPORTED int epoll_wait(int epoll, struct epoll_event *events, int max_events, int timeout)
{
    int result = wait_for_events(epoll, events, max_events, timeout);
    /* Not in a forked child, whose copy of the flag is never updated. */
    if (result == 0 && timeout == 0 && agent_space && process_in_space() &&
        atomic_load_explicit(&agent_space->oversubscribed, memory_order_relaxed))
        spin_yield();
    return result;
}
