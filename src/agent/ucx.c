/* src/agent/ucx.c: settings of communication libraries that only a task can choose.
 *
 * UCX uses POSIX shared memory, but no System V segments.
 *
 * UCX makes a segment of each kind for each rank, and a connection uses one of them. The kernel
 * handles a page fault in POSIX shared memory under a lock of that mapping, but one in a System V
 * segment under the lock of the whole map (shm_vm_ops has no map_pages), for which all tasks wait.
 * Nothing is lost: where either kind cannot be had UCX does not start.
 *
 * UCX can leave out single transports since 1.11. What the user has set stays. */
#include "agent/agent.h"
#include "space/layout.h"

extern void *dlopen(const char *, int) WEAK;
extern int dlclose(void *) WEAK;
extern char *getenv(const char *) WEAK;
extern int setenv(const char *, const char *, int) WEAK;

typedef void version_function(unsigned *major, unsigned *minor, unsigned *release);

static int can_leave_out(void *ucx)
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
    void *ucx = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (!ucx)
        return;
    if (can_leave_out(ucx))
        setenv("UCX_TLS", "^sysv", 0);
    dlclose(ucx);
}

/* Open MPI's OpenSHMEM maps its symmetric heap over whatever is at one address, 0xff000000, in each
 * process. In one address space the heap of the last task would be that of all: each gets a place
 * in its own range, half way through its mappings. The addresses may differ. */
void place_symmetric_heap(void)
{
    static const char setting[] = "OMPI_MCA_sshmem_base_start_address";
    uintptr_t place = agent_low + (LAYOUT_MAPPINGS + LAYOUT_BREAK) / 2;
    char digits[24], *first = digits + sizeof(digits) - 1;
    if (!agent_low || !dlopen || !dlclose || !getenv || !setenv || getenv(setting) ||
        getenv("OMPI_MCA_memheap_base_start_address"))
        return;
    void *openshmem = dlopen("liboshmem.so.40", RTLD_LAZY | RTLD_NOLOAD);
    if (!openshmem)
        return;
    *first = 0;
    do
        *--first = (char)('0' + place % 10);
    while (place /= 10);
    setenv(setting, first, 0);
    dlclose(openshmem);
}
