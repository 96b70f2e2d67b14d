/* src/mpi/pmpi/pmpi.c: finds the MPI library and looks its functions up. */
#include "mpi/pmpi/pmpi.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The library ---- */

static struct pmpi_functions functions;
static void *library;

/* The binary interface that this layer is built for. */
enum interface { INTERFACE_MPICH, INTERFACE_OPENMPI, INTERFACE_ABI };
#if defined(MPI_H_ABI)
static const enum interface own_interface = INTERFACE_ABI;
static const char layer[] = "libonespace-mpi-abi.so";
#elif defined(OPEN_MPI)
static const enum interface own_interface = INTERFACE_OPENMPI;
static const char layer[] = "libonespace-mpi-openmpi.so";
#else
static const enum interface own_interface = INTERFACE_MPICH;
static const char layer[] = "libonespace-mpi-mpich.so";
#endif

/* A library with MPI's standard interface is recognised by its name, because it has no symbol of
 * its own. Only Open MPI has ompi_mpi_comm_world. */
static int has_own_interface(void *found)
{
    const struct link_map *map;
    if (dlinfo(found, RTLD_DI_LINKMAP, &map) == 0 && strstr(map->l_name, "libmpi_abi.so"))
        return own_interface == INTERFACE_ABI;
    return own_interface ==
           (dlsym(found, "ompi_mpi_comm_world") ? INTERFACE_OPENMPI : INTERFACE_MPICH);
}

/* The library that the program is linked with. It is opened by the name under which the dynamic
 * linker knows it: a search of the file system would take longer than creating a window. */
static void *find_linked(void)
{
    Dl_info object;
    void *function = dlsym(RTLD_DEFAULT, "PMPI_Init");
    if (!function || !dladdr(function, &object))
        return NULL;
    void *found = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!found || (dlsym(found, "MPI_Init") && has_own_interface(found)))
        return found;
    dlclose(found);
    return NULL;
}

/* The library that the program has loaded, perhaps with RTLD_LOCAL. The agent chooses the layer by
 * the same list. */
static void *find_loaded(void)
{
    static const char *const names[] = {
#define NAME(soname, layer) soname,
        MPI_LIBRARIES(NAME)
#undef NAME
    };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *found = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (found && has_own_interface(found))
            return found;
        if (found)
            dlclose(found);
    }
    return NULL;
}

static void *find_required(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr,
                "onespace: this program's MPI library has no %s, which is part of MPI-3: "
                "run with --mpi-layer off\n",
                name);
        abort();
    }
    return found;
}

static void find_functions(void)
{
    library = find_linked();
    if (!library)
        library = find_loaded();
    if (!library) {
        fprintf(stderr,
                "onespace: %s is loaded, but not the MPI library that it was built for: "
                "do not preload it into this program, or run with --mpi-layer off\n",
                layer);
        abort();
    }
#define FIND(name) functions.name = (__typeof__(functions.name))find_required("PMPI_" #name);
#define FIND_OPTIONAL(name)                                                                        \
    functions.name = (__typeof__(functions.name))dlsym(library, "PMPI_" #name);
    MPI_LOADING(FIND)
    MPI_COLLECTIVES(FIND)
    MPI_NONBLOCKING(FIND)
    MPI_WAITING(FIND)
    MPI_FORWARDED(FIND)
    MPI_NOT_WRAPPED(FIND)
    MPI_NOT_WRAPPED_OPEN_MPI(FIND)
    MPI_LOADING_LARGE(FIND_OPTIONAL)
    MPI_COLLECTIVES_LARGE(FIND_OPTIONAL)
    MPI_WAITING_LARGE(FIND_OPTIONAL)
    MPI_FORWARDED_LARGE(FIND_OPTIONAL)
    MPI_NOT_WRAPPED_LARGE(FIND_OPTIONAL)
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct pmpi_functions *_Atomic pmpi_table;

const struct pmpi_functions *pmpi_load(void)
{
    pthread_once(&once, find_functions);
    atomic_store_explicit(&pmpi_table, &functions, memory_order_release);
    return &functions;
}

int pmpi_is_open_mpi(void)
{
    static _Atomic int is_open_mpi = -1; /* the same for all threads */
    int found = is_open_mpi, length;
    if (found < 0) {
        char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
        pmpi()->Get_library_version(version, &length);
        is_open_mpi = found = strncmp(version, "Open MPI", strlen("Open MPI")) == 0;
    }
    return found;
}

void *pmpi_symbol(const char *name)
{
    pthread_once(&once, find_functions);
    void *found = dlsym(library, name);
    if (found)
        return found;
    void *fortran = dlopen("libmpi_mpifh.so.40", RTLD_LAZY | RTLD_NOLOAD); /* Open MPI's */
    return fortran ? dlsym(fortran, name) : NULL;
}

void *pmpi_object(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    return found ? found : pmpi_symbol(name);
}

int pmpi_no_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

int pmpi_create_keyval(_Atomic int *keyval, MPI_Comm_delete_attr_function *delete)
{
    int made = MPI_KEYVAL_INVALID, none = MPI_KEYVAL_INVALID;
    if (*keyval != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    int result = pmpi()->Comm_create_keyval(pmpi_no_copy, delete, &made, NULL);
    if (result == MPI_SUCCESS && !atomic_compare_exchange_strong(keyval, &none, made))
        pmpi()->Comm_free_keyval(&made); /* another thread was first */
    return result;
}

int pmpi_has_world(void)
{
    int has_begun = 0, has_ended = 0;
    return pmpi()->Initialized(&has_begun) == MPI_SUCCESS && has_begun &&
           pmpi()->Finalized(&has_ended) == MPI_SUCCESS && !has_ended;
}

/* ---- A communicator of this process alone ---- */

/* Under the self_comm_mutex, which is never held across a call of MPI that another thread may wait
 * for: the communicator has one rank. */
static pthread_mutex_t self_comm_mutex = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm self_comm;
static int self_comm_exists, is_finalized;

/* Not MPI_Comm_dup, which would call the program's copy callbacks. */
static void create_self_comm(void)
{
    self_comm = MPI_COMM_NULL;
    if (pmpi()->Comm_split(MPI_COMM_SELF, 0, 0, &self_comm) != MPI_SUCCESS)
        self_comm = MPI_COMM_NULL;
    else
        pmpi()->Comm_set_errhandler(self_comm, MPI_ERRORS_RETURN);
    self_comm_exists = 1;
}

MPI_Comm pmpi_self_comm(void)
{
    pthread_mutex_lock(&self_comm_mutex);
    if (!self_comm_exists && !is_finalized && pmpi_has_world()) /* else there is no MPI_COMM_SELF */
        create_self_comm();
    MPI_Comm found = is_finalized || !self_comm_exists ? MPI_COMM_NULL : self_comm;
    pthread_mutex_unlock(&self_comm_mutex);
    return found;
}

void pmpi_self_comm_free(void)
{
    pthread_mutex_lock(&self_comm_mutex);
    if (self_comm_exists && !is_finalized && self_comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&self_comm);
    is_finalized = 1;
    pthread_mutex_unlock(&self_comm_mutex);
}

/* With items of no bytes, because libraries that accept an alias may have an assertion against
 * copying onto the same bytes. */
static int accepts_alias(void)
{
    char item = 0;
    MPI_Datatype nothing;
    MPI_Comm comm = pmpi_self_comm();
    if (comm == MPI_COMM_NULL || pmpi()->Type_contiguous(0, MPI_CHAR, &nothing) != MPI_SUCCESS)
        return 0;
    int accepts = pmpi()->Type_commit(&nothing) == MPI_SUCCESS &&
                  pmpi()->Allgather(&item, 1, nothing, &item, 1, nothing, comm) == MPI_SUCCESS;
    pmpi()->Type_free(&nothing);
    return accepts;
}

/* Relaxed: all threads get the same answer. */
int pmpi_refuses_aliases(void)
{
    enum { NOT_ASKED, REFUSED, ACCEPTED };
    static _Atomic int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == NOT_ASKED) {
        answer = accepts_alias() ? ACCEPTED : REFUSED;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == REFUSED;
}

/* ---- State that the layer keeps for an MPI handle ---- */

int handle_table_add(struct handle_table *handles, uintptr_t handle, void *value)
{
    struct handle_entry *_Atomic *bucket =
        &handles->buckets[handle_hash(handle, HANDLE_TABLE_BITS)];
    pthread_mutex_lock(&handles->mutex);
    struct handle_entry *entry = atomic_load_explicit(bucket, memory_order_relaxed);
    while (entry && atomic_load_explicit(&entry->handle, memory_order_relaxed))
        entry = entry->next;
    int is_new = !entry;
    if (is_new && (entry = calloc(1, sizeof(*entry))))
        entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
    if (entry) {
        atomic_store_explicit(&entry->value, value, memory_order_relaxed);
        atomic_store_explicit(&entry->handle, handle, memory_order_release);
        if (is_new)
            atomic_store_explicit(bucket, entry, memory_order_release);
    }
    pthread_mutex_unlock(&handles->mutex);
    return entry ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void handle_table_remove(struct handle_table *handles, uintptr_t handle)
{
    pthread_mutex_lock(&handles->mutex);
    struct handle_entry *entry = handle_table_entry(handles, handle);
    if (entry)
        atomic_store_explicit(&entry->handle, 0, memory_order_release);
    pthread_mutex_unlock(&handles->mutex);
}
