/* tests/remote_call/guests/no_fsgsbase.c: preloaded: the machine seems to have no FSGSBASE, so that
 * the thread pointer is changed by system calls. */
#include <dlfcn.h>
#include <sys/auxv.h>

unsigned long getauxval(unsigned long type)
{
    unsigned long (*real)(unsigned long) =
        (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return type == AT_HWCAP2 ? real(type) & ~2ul : real(type);
}
