/* src/smsc/openmpi.h: the binary interface of Open MPI that the component uses. */
#ifndef ONESPACE_SMSC_OPENMPI_H
#define ONESPACE_SMSC_OPENMPI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* No package of Open MPI has headers for components, so the layouts are written down here, as they
 * are in its releases 5.0 and 6.0 on 64-bit machines. Three checks stand before the first use of
 * any of them: the assertions below, the version that the library names, and the sizes of its own
 * objects, which differ in a build for debugging. */

enum { OPENMPI_SUCCESS = 0, OPENMPI_NOT_AVAILABLE = -16 };

/* ---- Its objects ---- */

struct openmpi_class {
    const char *name;
    struct openmpi_class *parent;
    void (*construct)(void *), (*destruct)(void *);
    int initialized, depth;
    void **constructors, **destructors;
    size_t size; /* bytes of an object */
};

struct openmpi_object {
    struct openmpi_class *type;
    int32_t references;
};

struct openmpi_list_item {
    struct openmpi_object object;
    void *next, *previous;
    int32_t is_free;
};

struct openmpi_name {
    uint32_t job, rank;
};

/* A process that this one may send to. */
struct openmpi_process {
    struct openmpi_list_item item;
    struct openmpi_name name;
    uint32_t architecture;
    uint16_t locality;
    void *convertor;
};

/* The beginning of what it knows about its own process. */
struct openmpi_self {
    struct openmpi_name name;
    char job[256]; /* PMIx's name of the job */
    uint32_t rank;
    uint8_t has_launcher;
    char *node, *session_directories[3];
    uint32_t local_peers; /* other ranks of its job on its node; 1 without a launcher */
    uint16_t numbers[3];
    char *cpus, *locality;
    int32_t pid;
    uint32_t ranks; /* of its job */
};

static_assert(sizeof(struct openmpi_class) == 64, "an opal_class_t");
static_assert(sizeof(struct openmpi_object) == 16, "an opal_object_t");
static_assert(sizeof(struct openmpi_list_item) == 40, "an opal_list_item_t");
static_assert(sizeof(struct openmpi_process) == 64, "an opal_proc_t");
static_assert(offsetof(struct openmpi_self, local_peers) == 304, "an opal_process_info_t");
static_assert(offsetof(struct openmpi_self, ranks) == 340, "an opal_process_info_t");

/* ---- A component of the framework "smsc": shared memory, single copy ---- */

/* The interface of all components that the loader compares, 2.1. */
struct openmpi_component {
    int interface[3]; /* these and the following are major, minor, release */
    char project[16];
    int project_version[3];
    char framework[32];
    int framework_version[3];
    char name[64];
    int version[3];
    int (*open)(void);
    int (*close)(void);
    int (*choose)(void **module, int *priority); /* not in this framework */
    int (*register_parameters)(void);
    int32_t flags;
    char reserved[28];
};

struct smsc_endpoint {
    struct openmpi_object object;
    struct openmpi_process *process;
};

#define SMSC_CAN_MAP UINT64_C(2)

/* The functions of the chosen component. Any thread of the MPI library calls them. */
struct smsc_module {
    uint64_t features;
    size_t registration_size;
    struct smsc_endpoint *(*get_endpoint)(struct openmpi_process *process); /* NULL: not with it */
    void (*return_endpoint)(struct smsc_endpoint *endpoint);
    int (*copy_to)(struct smsc_endpoint *endpoint, void *own, void *peers, size_t size,
                   void *registration);
    int (*copy_from)(struct smsc_endpoint *endpoint, void *own, void *peers, size_t size,
                     void *registration);
    /* Returns what unmap gets, not NULL; *mapping is where the caller finds the peer's memory. */
    void *(*map)(struct smsc_endpoint *endpoint, uint64_t flags, void *peers, size_t size,
                 void **mapping);
    void (*unmap)(void *mapped);
    void *(*register_region)(void *own, size_t size); /* this and the next not with our features */
    void (*deregister_region)(void *registration);
};

struct smsc_component {
    struct openmpi_component base;
    uint32_t metadata;
    char reserved[32];
    int priority; /* the component with the highest is chosen among those whose query succeeds */
    int (*query)(void);
    struct smsc_module *(*enable)(void);
};

static_assert(offsetof(struct openmpi_component, name) == 84, "a mca_base_component_2_1_0_t");
static_assert(offsetof(struct openmpi_component, open) == 160, "a mca_base_component_2_1_0_t");
static_assert(sizeof(struct openmpi_component) == 224, "a mca_base_component_2_1_0_t");
static_assert(offsetof(struct smsc_component, priority) == 260, "a mca_smsc_component_1_0_0_t");
static_assert(sizeof(struct smsc_component) == 280, "a mca_smsc_component_1_0_0_t");
static_assert(sizeof(struct smsc_endpoint) == 24, "a mca_smsc_endpoint_t");
static_assert(sizeof(struct smsc_module) == 80, "a mca_smsc_module_t");

/* The beginning of a framework, which has the components that are part of the library. */
struct openmpi_framework {
    char *project, *name;
    const char *description;
    int (*register_parameters)(int), (*open)(int), (*close)(void);
    int flags, references;
    const void
        *components; /* up to NULL: 5.0 has pointers to components, 6.0 pointers to such pointers */
    char *selection;
    int verbosity, output;
};

static_assert(offsetof(struct openmpi_framework, components) == 56, "a mca_base_framework_t");
static_assert(offsetof(struct openmpi_framework, output) == 76, "a mca_base_framework_t");

/* ---- The library in this process ---- */

struct openmpi {
    int major;                    /* 5 or 6 */
    struct openmpi_class *object; /* the class of endpoints */
    const struct openmpi_self *self;
    struct openmpi_framework *framework; /* smsc */
    void (*output)(int stream, const char *format, ...);
    unsigned char (*is_verbose)(int level, int stream);
    void (*register_priority)(struct smsc_component *component, int priority);
};

/* ---- This component's module ---- */

/* Precondition: agreement_reach has returned NULL. Holds the memory of all tasks of the node. The
 * module is valid until module_end. */
struct smsc_module *module_begin(const struct openmpi *found);

/* Releases the holds. May be called without module_begin. */
void module_end(void);

#endif
