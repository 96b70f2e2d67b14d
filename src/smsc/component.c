/* src/smsc/component.c: mca_smsc_onespace.so, the component for Open MPI 5 and 6. */
#include "smsc/openmpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "onespace.h"
#include "space/registry.h"

/* ---- The library ---- */

static int is_class(void *library, const char *symbol, const char *name, size_t size)
{
    const struct openmpi_class *type = dlsym(library, symbol);
    return type && strcmp(type->name, name) == 0 && type->size == size;
}

/* "5.0.11", "6.0.0rc2": 5, 6, or 0 for others. */
static int known_major(const char *version)
{
    int is_known =
        version && (version[0] == '5' || version[0] == '6') && strncmp(version + 1, ".0.", 3) == 0;
    return is_known ? version[0] - '0' : 0;
}

/* Finds Open MPI in the library with this dlopen handle, or in its dependencies. Returns NULL, or
 * the reason why it cannot be used; the members found until then are set in any case. */
static const char *find_openmpi(struct openmpi *openmpi, void *library)
{
    memset(openmpi, 0, sizeof(*openmpi));
    openmpi->framework = dlsym(library, "opal_smsc_base_framework");
    if (!openmpi->framework)
        return "this library has no framework smsc: it is older than Open MPI 5";
    openmpi->major = known_major(dlsym(library, "opal_version_string"));
    if (!openmpi->major)
        return "this release of Open MPI is neither 5.0 nor 6.0: its interface is not known";
    openmpi->output = (void (*)(int, const char *, ...))dlsym(library, "opal_output");
    openmpi->is_verbose =
        (unsigned char (*)(int, int))dlsym(library, "opal_output_check_verbosity");
    openmpi->register_priority = (void (*)(struct smsc_component *, int))dlsym(
        library, "mca_smsc_base_register_default_params");
    openmpi->self = dlsym(library, "opal_process_info");
    openmpi->object = dlsym(library, "opal_object_t_class");
    if (!openmpi->register_priority || !openmpi->self ||
        !is_class(library, "opal_object_t_class", "opal_object_t", sizeof(struct openmpi_object)) ||
        !is_class(library, "opal_list_item_t_class", "opal_list_item_t",
                  sizeof(struct openmpi_list_item)) ||
        !is_class(library, "opal_proc_t_class", "opal_proc_t", sizeof(struct openmpi_process)) ||
        strcmp(openmpi->framework->name, "smsc") != 0)
        return "this build of Open MPI has other layouts than its releases: was it built for "
               "debugging?";
    return NULL;
}

/* ---- Agreement of the node's ranks ---- */

/* The barrier of the space is the agreement: it completes only when all tasks are in it at once,
 * and then for all of them. A rank that refuses never arrives, but exports a name. The others look
 * for that name between short waits; a wait that times out withdraws from the barrier, so no
 * agreement is lost. */

#define REFUSED "onespace.smsc.refused"

/* Together 30 s, for ranks that enter MPI_Init late. A rank that never loads the component has a
 * setting of its own (--mca smsc). The host starts all tasks of a launch one after the other; a
 * rank that it has not started within START_POLLS_MAX is no task. */
enum { POLL_MS = 100, POLLS_MAX = 300, START_POLLS_MAX = 20 };

static int has_refused; /* this process. MPI_Init is called by one thread */

/* Publishes that this rank does not use the component, which ends the other ranks' wait. */
static void agreement_refuse(void)
{
    /* -EEXIST by an earlier call, or there is no space to say it in. */
    int result = onespace_export(REFUSED, &has_refused, sizeof(has_refused));
    (void)result;
    has_refused = 1;
}

/* Why the rank with this number cannot take part, or NULL. */
static const char *find_refusal(int number, int may_start)
{
    void *mark;
    int id = onespace_task(number);
    if (id == -ESRCH && may_start)
        return NULL;
    if (id < 0)
        return "a rank of this node is not a task of this space, or has left it";
    if (id == onespace_self() || onespace_import(id, REFUSED, &mark, NULL, 0) < 0)
        return NULL;
    int result = onespace_release(id);
    (void)result;
    return "another rank of this node does not use it";
}

static const char *find_refusals(int ranks, int may_start)
{
    const char *why = NULL;
    for (int number = 0; number < ranks && !why; number++)
        why = find_refusal(number, may_start);
    return why;
}

static const char *wait_for_all(int ranks)
{
    for (int polls = 0; polls < POLLS_MAX; polls++) {
        int result = onespace_barrier(POLL_MS);
        if (result != -ETIMEDOUT)
            return result < 0 ? "a task of this space has ended" : NULL;
        const char *why = find_refusals(ranks, polls < START_POLLS_MAX);
        if (why)
            return why;
    }
    return "a rank of this node has not come to use it within 30 seconds";
}

/* NULL if all ranks of the job on this node are tasks of this space and have called this; otherwise
 * the reason, and then no other rank gets NULL. A rank that uses the component sends its peers
 * addresses, which ranks without it cannot read. Waits for the others as MPI_Init does. ranks: the
 * MPI library's count of ranks on this node. */
static const char *agreement_reach(int ranks)
{
    const char *why;
    if (ranks < 2)
        return "there is no other rank on this node";
    if (has_refused)
        why = "it was refused before";
    else if (onespace_number() < 0)
        why = "this rank has no number in a space";
    else if (onespace_ntasks() != ranks)
        why = "the launcher counts other ranks on this node than Open MPI does";
    else
        why = wait_for_all(ranks);
    if (why)
        agreement_refuse();
    return why;
}

/* ---- The component ---- */

/* Open MPI loads the component from the directory that `onespace run` names
 * (src/launch/mpi_defaults.c), registers its priority, opens it, and asks it in MPI_Init whether it
 * can be used. A library built without support for components in files gets it from
 * onespace_smsc_join. */

#define EXPORTED __attribute__((visibility("default")))

/* Above XPMEM's, which has 42, and CMA's with 37. */
enum { PRIORITY = 50, VERBOSE_COMPONENT = 10 };

static int register_parameters(void);
static int close_component(void);
static int query(void);
static struct smsc_module *enable(void);

/* The loader looks for this name. */
EXPORTED struct smsc_component mca_smsc_onespace_component = {
    .base =
        {
            .interface = {2, 1, 0},
            .project = "onespace",
            .project_version = {ONESPACE_VERSION_MAJOR, ONESPACE_VERSION_MINOR,
                                ONESPACE_VERSION_PATCH},
            .framework = "smsc",
            .framework_version = {1, 0, 0},
            .name = "onespace",
            .version = {ONESPACE_VERSION_MAJOR, ONESPACE_VERSION_MINOR, ONESPACE_VERSION_PATCH},
            .close = close_component,
            .register_parameters = register_parameters,
        },
    .priority = PRIORITY,
    .query = query,
    .enable = enable,
};

static struct openmpi openmpi; /* written and read by the thread that is in MPI_Init */

/* The library with the instruction at this address, which calls the component: its functions may be
 * in no scope that dlsym searches, as when Python has loaded it. */
static const char *find_caller(void *address)
{
    Dl_info info;
    void *library = dladdr(address, &info) && info.dli_fname
                        ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    return library ? find_openmpi(&openmpi, library) : "its caller is not a library";
}

static int register_parameters(void)
{
    if (!find_caller(__builtin_return_address(0)))
        openmpi.register_priority(&mca_smsc_onespace_component, PRIORITY);
    return OPENMPI_SUCCESS;
}

static int close_component(void)
{
    module_end();
    return OPENMPI_SUCCESS;
}

static const char *find_obstacle(void)
{
    const struct space_slot *self = (const struct space_slot *)getauxval(SPACE_AT_SLOT);
    if (!self || onespace_self() <= 0)
        return "this process is not a task of a space";
    if (self->flags & ONESPACE_SPAWN_GUARD)
        return "this task is guarded: others may not write to its memory";
    if (mca_smsc_onespace_component.priority < 0)
        return "its priority is negative";
    return NULL;
}

/* The ranks of this job on this node. */
static int local_ranks(void)
{
    return openmpi.self->ranks > 1 ? (int)openmpi.self->local_peers + 1 : 1;
}

static int query(void)
{
    const char *why = find_caller(__builtin_return_address(0));
    if (!why)
        why = find_obstacle();
    if (why)
        agreement_refuse();
    else
        why = agreement_reach(local_ranks());
    if (why && openmpi.output && openmpi.is_verbose &&
        openmpi.is_verbose(VERBOSE_COMPONENT, openmpi.framework->output))
        openmpi.output(openmpi.framework->output, "smsc onespace is not used: %s", why);
    return why ? OPENMPI_NOT_AVAILABLE : OPENMPI_SUCCESS;
}

static struct smsc_module *enable(void)
{
    return module_begin(&openmpi);
}

/* ---- Libraries that load no components ---- */

/* For Open MPI built without support for components in files (--disable-dlopen), as PyPI's is. The
 * agent calls this when the library begins to look for components and has opened no framework yet.
 * From then on the component is registered, opened, selected and closed as the library's own are.
 */

enum { COMPONENTS_MAX = 15 };

static const void *components[COMPONENTS_MAX + 1]; /* own_component, the library's, then NULL */
static const void *own_component = &mca_smsc_onespace_component;

/* Called by the agent. library: a handle of dlopen. May be called again. */
EXPORTED void onespace_smsc_join(void *library);
void onespace_smsc_join(void *library)
{
    struct openmpi found;
    if (components[0] || find_openmpi(&found, library) || found.framework->references > 0)
        return;
    const void *const *old = found.framework->components;
    size_t count = 0;
    while (old && old[count])
        count++;
    if (count >= COMPONENTS_MAX)
        return;
    components[0] = found.major == 5 ? own_component : &own_component;
    if (count > 0)
        memcpy(components + 1, old, count * sizeof(*old));
    found.framework->components = components;
}
