/* src/smsc/agreement.c: see agreement.h.
 *
 * The barrier of the space is the agreement: it is complete only when all tasks are in it at once,
 * and then for all of them. A rank that refuses never arrives; the name that it exports spares the
 * others the wait for it. They look for that name between short waits, whose arrivals the barrier
 * withdraws, so that this loses no agreement. */
#include "smsc/agreement.h"

#include <errno.h>

#include "onespace.h"

#define REFUSED "onespace.smsc.refused"

/* The time is for ranks that come to MPI_Init late. It runs out only when a rank never loads the
 * component, which takes a setting of its own (--mca smsc). */
enum { LOOK_MS = 100, LOOKS = 300 };

static int has_refused; /* this process. MPI_Init is called by one thread */

void agreement_refuse(void)
{
    /* -EEXIST by an earlier call, or there is no space to say it in. */
    int result = onespace_export(REFUSED, &has_refused, sizeof(has_refused));
    (void)result;
    has_refused = 1;
}

/* Whether the rank with this number cannot take part, as far as is known. */
static const char *find_refusal(int number)
{
    void *mark;
    int id = onespace_task(number);
    if (id < 0)
        return "a rank of this node is no task of this space, or has left it";
    if (id == onespace_self() || onespace_import(id, REFUSED, &mark, NULL, 0) < 0)
        return NULL;
    int result = onespace_release(id);
    (void)result;
    return "another rank of this node does not use it";
}

static const char *find_refusals(int ranks)
{
    const char *why = NULL;
    for (int number = 0; number < ranks && !why; number++)
        why = find_refusal(number);
    return why;
}

static const char *wait_for_all(int ranks)
{
    for (int looks = 0; looks < LOOKS; looks++) {
        int result = onespace_barrier(LOOK_MS);
        if (result != -ETIMEDOUT)
            return result < 0 ? "a task of this space has ended" : NULL;
        const char *why = find_refusals(ranks);
        if (why)
            return why;
    }
    return "a rank of this node has not come to use it within 30 seconds";
}

const char *agreement_reach(int ranks)
{
    const char *why;
    if (ranks < 2)
        return "there is no other rank on this node";
    if (has_refused)
        why = "it was refused before";
    else if (onespace_number() < 0)
        why = "this rank has no number in a space";
    else if (onespace_ntasks() != ranks)
        why = "the launcher counts other ranks on this node than Open MPI does";
    else
        why = wait_for_all(ranks);
    if (why)
        agreement_refuse();
    return why;
}
