/* src/base/signals.h: sets of signals as the kernel has them: bit n - 1 for signal n. Freestanding.
 */
#ifndef ONESPACE_BASE_SIGNALS_H
#define ONESPACE_BASE_SIGNALS_H

#include <signal.h>
#include <stdint.h>

#include "arch/constants.h"
#include "base/raw.h"

enum { SIGNALS = 64 }; /* the highest number */

#define SIGNALS_ALL (~UINT64_C(0))

static inline uint64_t signal_bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

/* Sets the calling thread's mask and returns the old one. */
static inline uint64_t signals_set_mask(uint64_t mask)
{
    uint64_t old = 0;
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &mask, &old, ARCH_SIGNAL_SET_BYTES);
    return old;
}

#endif
