/* tests/differential/guests/steps/faults.h: a load or store that may fault, and the handler that
 * ends it. */
#ifndef FAULTS_H
#define FAULTS_H

#include <setjmp.h>
#include <signal.h>

/* Set by touch; while fault_is_expected, our handler of a fault jumps there. */
extern sigjmp_buf fault_jump;
extern volatile sig_atomic_t fault_is_expected;
/* A child that only tries an address: whatever handler is called ends it. */
extern volatile sig_atomic_t fault_is_fatal;

#endif
