/* src/smsc/component.c: mca_smsc_onespace.so, the component for Open MPI 5 and 6.
 *
 * Open MPI loads it from the directory that `onespace run` names (src/launch/mpi_defaults.c), registers
 * its priority, opens it, and asks it in MPI_Init whether it can be used. A library that was built
 * without support for such files gets it by join. */
#include <dlfcn.h>
#include <sys/auxv.h>

#include "onespace.h"
#include "space/registry.h"
#include "smsc/agreement.h"
#include "smsc/module.h"
#include "smsc/openmpi.h"

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
    return library ? openmpi_find(&openmpi, library) : "its caller is no library";
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

/* Of this job on this node. */
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
