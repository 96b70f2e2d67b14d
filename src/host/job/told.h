/* src/host/job/told.h: one message for a job, whichever of its shims says it.
 *
 * Ranks of one launcher fail for the same reason at the same time: each of their shims learns it.
 * The host gives the shims of a launch a token, an eventfd that outlives it, and the shim that
 * reads the token first says the message:
 *
 *   1   nobody has said anything
 *   0   somebody is about to
 *   2   it has been said
 *
 * The others wait until it has: a launcher ends all ranks when the first one fails. */
#ifndef ONESPACE_HOST_TOLD_H
#define ONESPACE_HOST_TOLD_H

/* A token, or -errno. */
int told_make(void);
/* 1: the caller is to say the message, and to call told_done. 0: another one has, or had a second
 * to do so. */
int told_claim(int token);
void told_done(int token);

#endif
