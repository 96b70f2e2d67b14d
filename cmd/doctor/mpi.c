/* cmd/doctor/mpi.c: the MPI launchers and libraries of this machine, how each library copies large
 * messages between tasks, and the environment variables that change this. */
#include "cmd/doctor/doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/lib/files.h"
#include "launch/launch.h"
#include "spawn/spawn.h"

/* ---- Which kind of launcher a program is ---- */

/* Copies the word after `before` in text, up to a blank or one of ",)". 0 or -1. */
static int word_after(const char *text, const char *before, char *word, size_t size)
{
    const char *at = strstr(text, before);
    if (!at)
        return -1;
    at += strlen(before);
    at += strspn(at, " \t");
    snprintf(word, size, "%.*s", (int)strcspn(at, " \t\n,)"), at);
    return word[0] ? 0 : -1;
}

static const struct {
    const char *mark, *before, *name;
    enum mpi_family family;
} kinds[] = {
    {"(Open MPI)", "(Open MPI)", "Open MPI", MPI_FAMILY_OPENMPI},
    {"(OpenRTE)", "(OpenRTE)", "Open MPI", MPI_FAMILY_OPENMPI},
    {"Intel(R) MPI", "Version", "Intel MPI", MPI_FAMILY_HYDRA},
    {"HYDRA", "Version:", "MPICH's Hydra", MPI_FAMILY_HYDRA},
    {"slurm", "slurm", "Slurm", MPI_FAMILY_UNKNOWN},
    {"(PRRTE)", "(PRRTE)", "PRRTE", MPI_FAMILY_OPENMPI},
};

/* The kind of launcher that printed this with --version, for people. */
static enum mpi_family name_launcher(const char *output, char kind[MPI_KIND_SIZE])
{
    char version[64];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strstr(output, kinds[i].mark) &&
            word_after(output, kinds[i].before, version, sizeof(version)) == 0) {
            snprintf(kind, MPI_KIND_SIZE, "%s %s", kinds[i].name, version);
            return kinds[i].family;
        }
    snprintf(kind, MPI_KIND_SIZE, "of a kind that this command does not know");
    return MPI_FAMILY_UNKNOWN;
}

int mpi_ask_launcher(const char *path, enum mpi_family *family, char kind[MPI_KIND_SIZE])
{
    char output[2048];
    char *argv[] = {(char *)path, "--version", NULL};
    int status = doctor_command(argv, output, sizeof(output), MPI_VERSION_TIMEOUT_MS);
    *family = MPI_FAMILY_UNKNOWN;
    if (status == -ETIMEDOUT)
        return status;
    if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        snprintf(kind, MPI_KIND_SIZE, "%.*s", (int)strcspn(output, "\n"), output);
        return -EIO;
    }
    *family = name_launcher(output, kind);
    return 0;
}

/* ---- Finding launchers and libraries ---- */

enum { MPI_FILES_MAX = 64 };

struct mpi_files { /* files by their real paths, each once */
    unsigned count;
    char *names[MPI_FILES_MAX]; /* as found */
    char *paths[MPI_FILES_MAX]; /* real */
};

/* Python wheels cannot contain links: libmpi.so.12.0.0 is a copy of libmpi.so.12. */
static int is_copy(const char *path, const char *other)
{
    size_t length = strlen(other);
    struct stat ours, theirs;
    return strncmp(path, other, length) == 0 && path[length] == '.' && stat(path, &ours) == 0 &&
           stat(other, &theirs) == 0 && ours.st_size == theirs.st_size;
}

static void add_found(struct mpi_files *found, const char *name)
{
    char *real = realpath(name, NULL);
    int known = !real || found->count == MPI_FILES_MAX;
    for (unsigned i = 0; !known && i < found->count; i++)
        known = strcmp(found->paths[i], real) == 0 || is_copy(real, found->paths[i]);
    if (known) {
        free(real);
        return;
    }
    found->paths[found->count] = real;
    found->names[found->count] = strdup(name);
    found->count++;
}

static void free_files(struct mpi_files *found)
{
    for (unsigned i = 0; i < found->count; i++) {
        free(found->names[i]);
        free(found->paths[i]);
    }
    found->count = 0;
}

/* The launchers along PATH. An active virtual environment's directory leads PATH; some activate it
 * without changing PATH. */
static void find_launchers(struct mpi_files *found)
{
    static const char *const names[] = {
        "mpiexec",       "mpirun",  "mpiexec.mpich", "mpiexec.openmpi",
        "mpiexec.hydra", "prterun", "srun"};
    const char *environment = getenv("VIRTUAL_ENV"), *directory;
    char directories[2 * PATH_MAX], candidate[3 * PATH_MAX];
    int length;
    snprintf(directories, sizeof(directories), "%s%s%s", environment ? environment : "",
             environment ? "/bin:" : "", path_list());
    for (const char *list = directories; (directory = path_next(&list, &length));)
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            snprintf(candidate, sizeof(candidate), "%.*s/%s", length, directory, names[i]);
            if (access(candidate, X_OK) == 0)
                add_found(found, candidate);
        }
}

static int add_mpi_library(const char *name, const char *path, void *found)
{
    if (strncmp(name, "libmpi.so.", 10) == 0 || strncmp(name, "libmpich.so.", 12) == 0 ||
        strncmp(name, "libmpi_abi.so.", 14) == 0)
        add_found(found, path);
    return 0;
}

/* The libraries beside the launchers, which may be installations that are not in ldconfig's cache,
 * and then those in the cache. */
static void find_libraries(struct mpi_files *found, const struct mpi_files *launchers)
{
    static const char *const patterns[] = {"libmpi.so.*", "libmpich.so.*", "libmpi_abi.so.*",
                                           "openmpi/lib/libmpi.so.*"};
    char pattern[PATH_MAX + 64];
    for (unsigned i = 0; i < launchers->count; i++) {
        char *bin = strrchr(launchers->names[i], '/');
        for (size_t p = 0; bin && p < sizeof(patterns) / sizeof(patterns[0]); p++) {
            glob_t hits;
            snprintf(pattern, sizeof(pattern), "%.*s/../lib/%s", (int)(bin - launchers->names[i]),
                     launchers->names[i], patterns[p]);
            if (glob(pattern, 0, NULL, &hits) == 0) {
                for (size_t h = 0; h < hits.gl_pathc; h++)
                    add_found(found, hits.gl_pathv[h]);
                globfree(&hits);
            }
        }
    }
    doctor_each_library(add_mpi_library, found);
}

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

/* Whether the library calls this function: whether it contains its name. */
static int names_function(const char *path, const char *name)
{
    return file_contains(path, name, strlen(name));
}

/* Whether a file that matches the pattern in the library's directory contains the text. */
static int sibling_names_function(const char *library, const char *pattern, const char *text)
{
    char path[2 * PATH_MAX];
    int found = 0;
    glob_t hits;
    const char *slash = strrchr(library, '/');
    snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - library), library, pattern);
    if (glob(path, 0, NULL, &hits) != 0)
        return 0;
    for (size_t i = 0; !found && i < hits.gl_pathc; i++)
        found = names_function(hits.gl_pathv[i], text);
    globfree(&hits);
    return found;
}

/* The MPI layer that serves the library's windows lies beside the agent. */
static void say_layer(const char *library, const char *layer)
{
    char path[PATH_MAX];
    if (strncmp(strrchr(library, '/') + 1, "libmpi_abi.so", 13) == 0)
        layer = "libonespace-mpi-abi.so"; /* the standard interface, of any library */
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

static const char *const single_copy = "one copy between tasks, without the kernel";

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
    int own = names_function(path, call);
    int ucx = strstr(device, "ucx") && (sibling_names_function(path, "ucx/libuct_cma.so*", call) ||
                                        sibling_names_function(path, "*/ucx/libuct_cma.so*", call));
    if (own || ucx)
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: MPICH %s, device %s: large messages by %s: %s", path, version, device,
                   own ? "its own CMA" : "UCX's CMA", single_copy);
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
    int cma = names_function(path, call) || sibling_names_function(path, "libopen-pal.so*", call) ||
              sibling_names_function(path, "openmpi/mca_smsc_cma.so", call) ||
              sibling_names_function(path, "openmpi/mca_btl_vader.so", call) ||
              sibling_names_function(path, "openmpi*/mca_btl_vader.so", call) ||
              sibling_names_function(path, "openmpi/lib/openmpi*/mca_btl_vader.so", call);
    char component[PATH_MAX]; /* src/smsc knows these releases */
    agent_sibling_path("onespace/openmpi/mca_smsc_onespace.so", component, sizeof(component));
    int is_supported = strncmp(version, "5.0.", 4) == 0 || strncmp(version, "6.0.", 4) == 0;
    if (cma)
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: Open MPI %s: large messages by CMA (%s, with pml "
                   "ob1): %s%s",
                   path, version, major >= 5 ? "smsc/cma" : "btl vader", single_copy,
                   is_supported && component[0]
                       ? "; smsc/onespace where all ranks of a node are tasks"
                       : "");
    else
        doctor_say(DOCTOR_WARNING, "MPI library", "Use an Open MPI built with CMA (--with-cma).",
                   "%s: Open MPI %s: no CMA found: messages are copied twice, between tasks too",
                   path, version);
}

/* Intel MPI does not use CMA between tasks. Since 2021.19 it can open libxpmem.so.0. */
static void say_intel_mpi(const char *path, const char *version)
{
    if (names_function(path, "libxpmem.so.0"))
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: Intel MPI %s: large messages by XPMEM, with I_MPI_SHM_XPMEM=1 and "
                   "I_MPI_FABRICS=shm: %s",
                   path, version, single_copy);
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
        int cma = names_function(path, "process_vm_readv");
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "%s: %.100s: not tried with onespace; it %s CMA itself", path, text,
                   cma ? "uses" : "does not use");
    }
}

void doctor_mpi(void)
{
    struct mpi_files launchers = {.count = 0}, libraries = {.count = 0};
    find_launchers(&launchers);
    for (unsigned i = 0; i < launchers.count; i++)
        say_launcher(launchers.names[i], launchers.paths[i]);
    if (launchers.count == 0)
        doctor_say(DOCTOR_GOOD, "launcher", NULL,
                   "none found in PATH: `onespace run -n N` works without");
    find_libraries(&libraries, &launchers);
    for (unsigned i = 0; i < libraries.count; i++)
        say_library(libraries.paths[i]);
    if (libraries.count == 0)
        doctor_say(DOCTOR_GOOD, "MPI library", NULL,
                   "none found beside a launcher or in ldconfig's cache");
    free_files(&libraries);
    free_files(&launchers);
}

/* ---- Environment variables ---- */

extern char **environ;

/* Lists what mpi_defaults_set adds to the environment. In a child process, so that programs that
 * this command starts later do not inherit it. */
static void list_defaults(int out, void *context)
{
    (void)context;
    char **before = environ;
    size_t count = 0, shown = 0;
    while (before[count])
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    if (!copy)
        return;
    memcpy(copy, before, count * sizeof(*copy));
    mpi_defaults_set(1);
    for (char **at = environ; *at; at++) {
        size_t old = 0;
        while (old < count && copy[old] != *at)
            old++;
        if (old == count)
            dprintf(out, "%s%s", shown++ ? ", " : "", *at);
    }
    free(copy);
}

static void say_defaults(void)
{
    char answer[1024];
    if (doctor_child(list_defaults, NULL, answer, sizeof(answer), 5000) != 0)
        return;
    if (answer[0])
        doctor_say(
            DOCTOR_GOOD, "MPI settings", NULL,
            "under a launcher, `onespace run` sets %s (docs/launchers-reference.md says why)",
            answer);
    else
        doctor_say(DOCTOR_GOOD, "MPI settings", NULL,
                   "under a launcher, `onespace run` sets nothing: your environment has it all");
}

/* Whether a comma-separated list that names transports allows UCX's CMA. */
static int ucx_allows_cma(const char *list)
{
    static const char *const with_cma[] = {"cma", "sm", "shm", "all"};
    char text[256], *save;
    int excludes = list[0] == '^', named = 0;
    snprintf(text, sizeof(text), "%s", list + excludes);
    for (char *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save))
        for (size_t i = 0; i < sizeof(with_cma) / sizeof(with_cma[0]); i++)
            named |= strcmp(name, with_cma[i]) == 0;
    return excludes ? !named : named;
}

static int ompi_allows_cma(const char *value)
{
    return value[0] == '^' ? !strstr(value, "cma") : strstr(value, "cma") != NULL;
}

static int smsc_allows_a_copy(const char *value)
{
    return ompi_allows_cma(value) || (value[0] != '^' && strstr(value, "onespace"));
}

static int is_not_zero(const char *value)
{
    return strcmp(value, "0") != 0 && strcmp(value, "no") != 0 && strcmp(value, "false") != 0;
}

static void say_own_settings(void)
{
    static const struct {
        const char *name;
        int (*allows)(const char *);
    } settings[] = {
        {"UCX_TLS", ucx_allows_cma},
        {"OMPI_MCA_btl_vader_single_copy_mechanism", ompi_allows_cma},
        {"OMPI_MCA_smsc", smsc_allows_a_copy},
        {"MPIR_CVAR_CH4_CMA_ENABLE", is_not_zero},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const char *value = getenv(settings[i].name);
        if (value && !settings[i].allows(value))
            doctor_say(
                DOCTOR_WARNING, "MPI settings", "Unset it, or add CMA to it.",
                "%s=%s switches CMA off: large messages are then copied twice, between tasks too",
                settings[i].name, value);
    }
}

void doctor_settings(void)
{
    say_defaults();
    say_own_settings();
}
