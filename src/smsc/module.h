/* src/smsc/module.h: copies between tasks of one space, whose addresses are valid in all of them.
 */
#ifndef ONESPACE_SMSC_MODULE_H
#define ONESPACE_SMSC_MODULE_H

#include "smsc/openmpi.h"

/* Precondition: agreement_reach has returned NULL. Holds the memory of all tasks of the node. The
 * module is valid until module_end. */
struct smsc_module *module_begin(const struct openmpi *found);

/* Releases the holds. May be called without module_begin. */
void module_end(void);

#endif
