/* src/task/dumpable.c: see dumpable.h. Freestanding: the reaper runs it in a signal handler. */
#include "task/dumpable.h"

#include <sys/prctl.h>

#include "base/kernel.h"
#include "base/raw.h"

/* The root writes the first before it makes the reaper, which shares its memory, and after the
 * reaper has ended; the reaper alone writes the second. */
static int is_closed;
static unsigned opened;

/* Whether the kernel ends all that share the memory that it dumps. */
static int dump_ends_all(void)
{
    uint32_t version = kernel_version();
    return version && version < KERNEL_VERSION(5, 16);
}

int dumpable_must_end(const char *choice)
{
    int is_choice = choice && (*choice == '0' || *choice == '1') && !choice[1];
    return is_choice ? *choice == '0' : dump_ends_all();
}

void dumpable_begin(void)
{
    opened = 0;
    is_closed = raw(__NR_prctl, PR_GET_DUMPABLE) == 1 && raw(__NR_prctl, PR_SET_DUMPABLE, 0) == 0;
}

void dumpable_end(void)
{
    if (is_closed)
        raw(__NR_prctl, PR_SET_DUMPABLE, 1);
    is_closed = 0;
}

void dumpable_signal(int signal)
{
    if (!is_closed)
        return;
    if (signal == DUMPABLE_OPEN)
        opened++;
    else if (opened)
        opened--;
    raw(__NR_prctl, PR_SET_DUMPABLE, opened != 0);
}
