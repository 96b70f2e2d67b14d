/* src/smsc/agreement.h: all ranks of a node use the component, or none does. */
#ifndef ONESPACE_SMSC_AGREEMENT_H
#define ONESPACE_SMSC_AGREEMENT_H

/* NULL when all ranks of the job on this node are tasks of this space, in which each of them has
 * called this; else why not, and then no other rank gets NULL. A rank that uses the component sends
 * its peers addresses, which those without it cannot read. Waits for the others as MPI_Init does.
 * ranks: on this node, those of the MPI library. */
const char *agreement_reach(int ranks);

/* Says that this rank does not use the component, to end the others' wait. */
void agreement_refuse(void);

#endif
