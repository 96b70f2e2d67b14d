/* src/arch/x86_64/remote_call.c: see remote_call.h. */
#include "arch/remote_call.h"

#include <sys/auxv.h>

enum { HWCAP2_FSGSBASE = 2 }; /* the kernel's */

int arch_may_set_thread_pointer(void)
{
    return (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE) != 0;
}
