/* src/smsc/join.c: the component becomes one of those that are part of the library.
 *
 * For Open MPI built without support for components in files (--disable-dlopen), as PyPI's is. The
 * agent calls this when the library begins to look for components and has opened no framework yet.
 * From then on the component is registered, opened, selected and closed as the library's own are.
 */
#include <dlfcn.h>
#include <string.h>

#include "smsc/openmpi.h"

extern struct smsc_component mca_smsc_onespace_component;

enum { COMPONENTS_MAX = 15 };

static const void *components[COMPONENTS_MAX + 1]; /* ours first, then the library's, then NULL */
static const void *own = &mca_smsc_onespace_component;

/* Called by the agent. library: a handle of dlopen. May be called again. */
__attribute__((visibility("default"))) void onespace_smsc_join(void *library);
void onespace_smsc_join(void *library)
{
    struct openmpi openmpi;
    if (components[0] || openmpi_find(&openmpi, library) || openmpi.framework->references > 0)
        return;
    const void *const *old = openmpi.framework->components;
    size_t count = 0;
    while (old && old[count])
        count++;
    if (count >= COMPONENTS_MAX)
        return;
    components[0] = openmpi.major == 5 ? own : &own;
    if (count > 0)
        memcpy(components + 1, old, count * sizeof(*old));
    openmpi.framework->components = components;
}
