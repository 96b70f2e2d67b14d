/* cmd/doctor/mpi.c: the MPI launchers and libraries of this machine, and how each library will copy
 * large messages between tasks. */
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/mpi_files.h"
#include "cmd/doctor/mpi_launchers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawn/spawn.h"

/* ---- Launchers ---- */

static void say_launcher(const char *name, const char *path)
{
    char kind[MPI_KIND_SIZE];
    enum mpi_family family;
    int status = mpi_ask_launcher(name, &family, kind);
    if (status == -ETIMEDOUT)
        doctor_say(DOCTOR_WARNING, "launcher", "See whether it works by hand.",
                   "%s --version gave no answer in %d s", name, MPI_VERSION_TIMEOUT_MS / 1000);
    else if (status < 0)
        doctor_say(DOCTOR_WARNING, "launcher", "See whether it works by hand.",
                   "%s --version fails%s%s", name, kind[0] ? ": " : "", kind);
    else if (strcmp(name, path) == 0)
        doctor_say(DOCTOR_GOOD, "launcher", NULL, "%s: %s", name, kind);
    else
        doctor_say(DOCTOR_GOOD, "launcher", NULL, "%s (%s): %s", name, path, kind);
}

/* ---- Libraries ---- */

/* MPI_Get_library_version may be called before MPI_Init. In a child, because a library's
 * constructors may do anything. */
static void ask_version(int out, void *context)
{
    static char text[16384];
    int length = 0;
    void *library = dlopen(context, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        dprintf(out, "error: %s", dlerror());
        return;
    }
    int (*get_version)(char *, int *) =
        (int (*)(char *, int *))dlsym(library, "MPI_Get_library_version");
    if (!get_version)
        dprintf(out, "error: it has no MPI_Get_library_version (MPI-3)");
    else if (get_version(text, &length) == 0)
        dprintf(out, "%.1000s", text);
}

/* Whether the library contains this text: the name of a function that it calls. */
static int file_names(const char *path, const char *text)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    void *file = fstat(fd, &stat) == 0 && stat.st_size > 0
                     ? mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                     : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED)
        return 0;
    int found = memmem(file, (size_t)stat.st_size, text, strlen(text)) != NULL;
    munmap(file, (size_t)stat.st_size);
    return found;
}

/* Whether a file beside the library that matches the pattern contains the text. */
static int neighbour_names(const char *library, const char *pattern, const char *text)
{
    char path[2 * PATH_MAX];
    int found = 0;
    glob_t hits;
    const char *slash = strrchr(library, '/');
    snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - library), library, pattern);
    if (glob(path, 0, NULL, &hits) != 0)
        return 0;
    for (size_t i = 0; !found && i < hits.gl_pathc; i++)
        found = file_names(hits.gl_pathv[i], text);
    globfree(&hits);
    return found;
}

/* The MPI layer that serves the library's windows lies beside the agent. */
static void say_layer(const char *library, const char *layer)
{
    char path[PATH_MAX];
    if (strncmp(strrchr(library, '/') + 1, "libmpi_abi.so", 13) == 0)
        layer = "libonespace-mpi-abi.so"; /* the standard interface, whoever's library it is */
    const char *agent = agent_path(), *slash = agent ? strrchr(agent, '/') : NULL;
    int length = slash ? (int)(slash - agent) : 0;
    if (!slash ||
        snprintf(path, sizeof(path), "%.*s/%s", length, agent, layer) >= (int)sizeof(path))
        return; /* said under "agent" */
    if (access(path, R_OK) == 0)
        doctor_say(DOCTOR_GOOD, "MPI windows", NULL,
                   "%s: one memory for all ranks of a space, by %s", library, path);
    else
        doctor_say(DOCTOR_WARNING, "MPI windows",
                   "Build onespace with that MPI's headers installed, and install it again.",
                   "%s: each rank maps them for itself, since %s is missing", library, path);
}

static const char *const one_copy = "one copy between tasks, without the kernel";

static void say_mpich(const char *path, const char *text)
{
    say_layer(path, "libonespace-mpi-mpich.so");
    char version[64] = "?", device[64] = "?";
    static const char call[] = "process_vm_readv";
    word_after(text, "MPICH Version:", version, sizeof(version));
    const char *at = strstr(text, "MPICH Device:");
    if (at) {
        at += strlen("MPICH Device:");
        at += strspn(at, " \t");
        snprintf(device, sizeof(device), "%.*s", (int)strcspn(at, "\n"), at);
    }
    int own = file_names(path, call);
    int ucx = strstr(device, "ucx") && (neighbour_names(path, "ucx/libuct_cma.so*", call) ||
                                        neighbour_names(path, "*/ucx/libuct_cma.so*", call));
    if (own || ucx)
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: MPICH %s, device %s: large messages by %s: %s", path, version, device,
                   own ? "its own CMA" : "UCX's CMA", one_copy);
    else
        doctor_say(
            DOCTOR_WARNING, "MPI library", "Install UCX's CMA module, or an MPICH built with CMA.",
            "%s: MPICH %s, device %s: no CMA found: messages are copied twice, between tasks too",
            path, version, device);
}

static void say_open_mpi(const char *path, const char *text)
{
    say_layer(path, "libonespace-mpi-openmpi.so");
    static const char call[] = "process_vm_readv";
    char version[64] = "?";
    word_after(text, "Open MPI v", version, sizeof(version));
    int major = atoi(version);
    /* The component is a file of its own, or part of libopen-pal. */
    int cma = file_names(path, call) || neighbour_names(path, "libopen-pal.so*", call) ||
              neighbour_names(path, "openmpi/mca_smsc_cma.so", call) ||
              neighbour_names(path, "openmpi/mca_btl_vader.so", call) ||
              neighbour_names(path, "openmpi*/mca_btl_vader.so", call) ||
              neighbour_names(path, "openmpi/lib/openmpi*/mca_btl_vader.so", call);
    char component[PATH_MAX]; /* src/smsc knows these releases */
    agent_sibling_path("onespace/openmpi/mca_smsc_onespace.so", component, sizeof(component));
    int knows = strncmp(version, "5.0.", 4) == 0 || strncmp(version, "6.0.", 4) == 0;
    if (cma)
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: Open MPI %s: large messages by CMA (%s, with pml "
                   "ob1): %s%s",
                   path, version, major >= 5 ? "smsc/cma" : "btl vader", one_copy,
                   knows && component[0] ? "; smsc/onespace where all ranks of a node are tasks"
                                         : "");
    else
        doctor_say(DOCTOR_WARNING, "MPI library", "Use an Open MPI built with CMA (--with-cma).",
                   "%s: Open MPI %s: no CMA found: messages are copied twice, between tasks too",
                   path, version);
}

/* It does not use CMA between tasks; since 2021.19 it can open libxpmem.so.0. */
static void say_intel_mpi(const char *path, const char *version)
{
    if (file_names(path, "libxpmem.so.0"))
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: Intel MPI %s: large messages by XPMEM, with I_MPI_SHM_XPMEM=1 and "
                   "I_MPI_FABRICS=shm: %s",
                   path, version, one_copy);
    else
        doctor_say(DOCTOR_WARNING, "MPI library",
                   "For large messages use 2021.19 or later, or another MPI.",
                   "%s: Intel MPI %s: works, but does not use CMA between tasks, and has no XPMEM: "
                   "messages are copied twice",
                   path, version);
}

static void say_library(const char *path)
{
    char text[2048], version[64] = "?";
    int status =
        doctor_child(ask_version, (void *)path, text, sizeof(text), MPI_VERSION_TIMEOUT_MS);
    if (status != 0 || !text[0] || strncmp(text, "error: ", 7) == 0) {
        doctor_say(DOCTOR_WARNING, "MPI library", "See that its own libraries are found (ldd).",
                   "%s: cannot be asked for its version%s%s", path, text[0] ? ": " : "",
                   strncmp(text, "error: ", 7) == 0 ? text + 7 : text);
    } else if (strncmp(text, "Intel(R) MPI", 12) == 0) {
        say_layer(path, "libonespace-mpi-mpich.so");
        word_after(text, "Library", version, sizeof(version));
        say_intel_mpi(path, version);
    } else if (strstr(text, "Open MPI v")) {
        say_open_mpi(path, text);
    } else if (strstr(text, "MPICH Version:")) {
        say_mpich(path, text);
    } else {
        text[strcspn(text, "\n")] = 0;
        int cma = file_names(path, "process_vm_readv");
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: %.100s: not tried with onespace; it %s CMA itself", path, text,
                   cma ? "uses" : "does not use");
    }
}

void doctor_mpi(void)
{
    struct mpi_files launchers = {.count = 0}, libraries = {.count = 0};
    mpi_find_launchers(&launchers);
    for (unsigned i = 0; i < launchers.count; i++)
        say_launcher(launchers.names[i], launchers.paths[i]);
    if (launchers.count == 0)
        doctor_say(DOCTOR_GOOD, "launcher", NULL,
                   "none found in PATH: `onespace run -n N` works without");
    mpi_find_libraries(&libraries, &launchers);
    for (unsigned i = 0; i < libraries.count; i++)
        say_library(libraries.paths[i]);
    if (libraries.count == 0)
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "none found beside a launcher or in ldconfig's cache");
    mpi_files_free(&libraries);
    mpi_files_free(&launchers);
}
