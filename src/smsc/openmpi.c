/* src/smsc/openmpi.c: see openmpi.h. */
#include "smsc/openmpi.h"

#include <dlfcn.h>
#include <string.h>

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

const char *openmpi_find(struct openmpi *openmpi, void *library)
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
