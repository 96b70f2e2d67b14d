/* src/agent/mpi.c: loads the MPI layer (src/mpi) into a program that makes its first window, and
 * Open MPI's component (src/smsc) where the library cannot load it itself.
 *
 * The agent exports a jump under the name of each function that the layer wraps, and precedes any
 * MPI library in symbol lookup; so it does not matter when, how and in which language the program
 * gets its MPI. A call that makes a window loads the layer for the MPI library that is present.
 * Until then, and with --mpi-layer off, the jumps lead to the MPI library. Functions with large
 * counts that the library lacks always lead to the layer, since a program that looks for them finds
 * the jumps. */
#include <fcntl.h>
#include <linux/limits.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/agent.h"
#include "base/futex.h"
#include "base/text.h"
#include "mpi/names/functions.h"
#include "onespace.h"

/* libc's; any program with an MPI library has them. */
extern void *dlopen(const char *, int) WEAK;
extern char *dlerror(void) WEAK;
extern int dladdr(const void *, Dl_info *) WEAK;
extern unsigned long getauxval(unsigned long) WEAK;
extern char *getenv(const char *) WEAK;

static const char names[] =
#define NAMES(name) "MPI_" #name "\0PMPI_" #name "\0"
#define NAME(name)  #name "\0"
    MPI_MAKERS(NAMES) MPI_MAKERS_LARGE(NAMES) MPI_COLLECTIVES(NAMES) MPI_COLLECTIVES_LARGE(NAMES)
        MPI_USERS(NAMES) MPI_USERS_LARGE(NAMES) MPI_OWN(NAME) MPI_FORTRAN(NAME) MPI_INTERNAL(NAME);

enum {
#define TWO(name) +2
#define ONE(name) +1
    MAKERS = 0 MPI_MAKERS(TWO) MPI_MAKERS_LARGE(TWO),
    COLLECTIVES = MAKERS MPI_COLLECTIVES(TWO) MPI_COLLECTIVES_LARGE(TWO),
    FORTRAN = COLLECTIVES MPI_USERS(TWO) MPI_USERS_LARGE(TWO) MPI_OWN(ONE),
    INTERNAL = FORTRAN MPI_FORTRAN(ONE),
    TARGETS = INTERNAL MPI_INTERNAL(ONE),
};

/* The target of each jump, 0: not known. Written under the lock, with release; read by the jumps.
 */
__attribute__((visibility("hidden"))) _Atomic(void *) mpi_targets[TARGETS];
__attribute__((visibility("hidden"))) void *mpi_resolve(unsigned index, const void *caller);

static _Atomic uint32_t
    lock;           /* 1: a thread is resolving; locked with acquire, unlocked with release */
static void *layer; /* under the lock */
static int layer_failed;

static void say(const char *what, const char *name, const char *why)
{
    const char *parts[] = {"onespace: ", what, " ", name, ": ", why, "\n"};
    struct iovec pieces[7];
    for (int i = 0; i < 7; i++)
        pieces[i] = (struct iovec){(void *)parts[i], text_length(parts[i])};
    raw(__NR_writev, 2, pieces, 7);
}

/* The MPI library that the program has, and the layer's name for it. Once found it stays loaded, by
 * the reference taken here; a name that is not loaded is searched for in the file system, which
 * takes 20 us. The caller has locked. */
static void *find_library(const char **layer_name)
{
    static void *found;
    static const char *found_layer;
    if (found) {
        *layer_name = found_layer;
        return found;
    }
    static const char libraries[] =
#define LIBRARY(soname, file) soname "\0" file "\0"
        MPI_LIBRARIES(LIBRARY);
    const char *soname = libraries;
    for (; *soname; soname = *layer_name + text_length(*layer_name) + 1) {
        *layer_name = soname + text_length(soname) + 1;
        found = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
        if (found) {
            found_layer = *layer_name;
            return found;
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

/* Whether the collective operation, MPI_NAME or PMPI_NAME or that with _c, is left to the library
 * by its name. */
static int is_left(const char *function)
{
    const char *list = getenv ? getenv(MPI_COLLECTIVES_LEFT) : NULL;
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

/* Whether the function with this index loads the layer, in a task whose spawner did not say
 * otherwise. */
static int is_wanted(unsigned index)
{
    if (index >= COLLECTIVES || (index >= MAKERS && is_left(name_of(index))))
        return 0;
    const struct space_slot *self =
        getauxval ? (const struct space_slot *)getauxval(SPACE_AT_SLOT) : NULL;
    return self && !(self->flags & ONESPACE_SPAWN_NO_MPI_LAYER) &&
           (index < MAKERS || (self->flags & ONESPACE_SPAWN_COLLECTIVES));
}

/* A layer that windows have loaded does not slow down collective operations that it only passes
 * on. */
static int is_passed_on(unsigned index)
{
    return index >= MAKERS && index < COLLECTIVES && !is_wanted(index);
}

static void load_layer(const char *name)
{
    char path[PATH_MAX];
    layer_failed = 1;
    if (sibling_path(name, path, sizeof(path)) < 0 ||
        raw(__NR_faccessat, AT_FDCWD, path, 4 /* R_OK */) < 0)
        return; /* this MPI's layer is not installed: see `onespace doctor` */
    layer = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!layer) {
        say("the MPI layer is left out, cannot load", path, dlerror ? dlerror() : "?");
        return;
    }
    for (unsigned i = 0; i < TARGETS; i++) /* resolve all of them again: to the layer */
        atomic_store_explicit(&mpi_targets[i], NULL, memory_order_release);
}

/* Open MPI from 5 on, built without support for components in files: gives it ours before it looks
 * at what it has. */
static void join_components(void *library)
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
        say("Open MPI copies between tasks without", path, dlerror ? dlerror() : "?");
}

/* The function of the library that calls it, which may be in no scope that dlsym searches, as when
 * Python has loaded it. */
static void *find_internal(const char *name, const void *caller)
{
    Dl_info info;
    void *library = dladdr && dladdr(caller, &info) && info.dli_fname
                        ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    if (library)
        join_components(library);
    void *own = library ? dlsym(library, name) : NULL;
    return own ? own : dlsym(RTLD_NEXT, name);
}

/* Open MPI has its Fortran bindings in a library of their own. */
static void *find_own(unsigned index, const char *name, void *library)
{
    void *fortran = index >= FORTRAN ? dlopen("libmpi_mpifh.so.40", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return dlsym(fortran ? fortran : library, name);
}

/* Another library with the name comes first: a tool that wraps MPI_NAME and calls PMPI_NAME, or a
 * copy of the layer that the program is linked with. */
static void *find_target(unsigned index, const char *name, void *library)
{
    void *next = dlsym(RTLD_NEXT, name), *own = library ? find_own(index, name, library) : NULL;
    if (next && next != own)
        return next;
    void *wrapped = layer && !(own && is_passed_on(index)) ? dlsym(layer, name) : NULL;
    return wrapped ? wrapped : own ? own : next;
}

/* A function of MPI's, which may lead to the layer. */
static void *find_function(unsigned index, const char *name)
{
    const char *layer_name = NULL;
    void *library = find_library(&layer_name);
    int is_needed = library && is_wanted(index);
    is_needed |= library && index < FORTRAN && !dlsym(library, name);
    if (is_needed && !layer && !layer_failed)
        load_layer(layer_name);
    return find_target(index, name, library);
}

/* The target of the jump with this index, which the instruction before caller has called. Called
 * once for each, or twice if the layer is loaded in between. */
void *mpi_resolve(unsigned index, const void *caller)
{
    const char *name = name_of(index);
    if (!dlopen || !dlsym) {
        say("cannot find", name, "this libc has no dlsym");
        for (;;)
            raw(__NR_exit_group, 127);
    }
    while (atomic_exchange_explicit(&lock, 1, memory_order_acquire))
        spin_yield();
    void *target = index >= INTERNAL ? find_internal(name, caller) : find_function(index, name);
    atomic_store_explicit(&mpi_targets[index], target, memory_order_release);
    atomic_store_explicit(&lock, 0, memory_order_release);
    if (!target) {
        say("cannot find", name, "the program calls it, but none of its libraries has it");
        raw(__NR_exit_group, 127);
    }
    return target;
}
