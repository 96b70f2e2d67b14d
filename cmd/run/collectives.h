/* cmd/run/collectives.h: the collective operations that --collectives off=NAMES leaves to MPI. */
#ifndef ONESPACE_CMD_RUN_COLLECTIVES_H
#define ONESPACE_CMD_RUN_COLLECTIVES_H

/* Names them to the tasks' agents, in the environment. 0, or -1 with a message: what is no name of
 * a collective operation that the layer does. */
int collectives_leave(const char *names);

#endif
