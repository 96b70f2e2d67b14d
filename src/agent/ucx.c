/* src/agent/ucx.c: UCX uses POSIX shared memory, but no System V segments.
 *
 * UCX makes a segment of each kind for each rank, and a connection uses one of them. The kernel
 * handles a page fault in POSIX shared memory under a lock of that mapping, but one in a System V
 * segment under the lock of the whole map (shm_vm_ops has no map_pages), for which all tasks wait.
 * Nothing is lost: where either kind cannot be had UCX does not start.
 *
 * UCX can leave out single transports since 1.11. What the user has set stays. */
#include "agent/agent.h"

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

void agent_choose_transports(void)
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
