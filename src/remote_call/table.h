/* src/remote_call/table.h: what callers, servers and the reaper do with lenders
 * (remote_call/remote_call.h). */
#ifndef ONESPACE_CALL_TABLE_H
#define ONESPACE_CALL_TABLE_H

#include "remote_call/remote_call.h"
#include "space/registry.h"

enum {
    CALL_SIGNAL = 33, /* glibc reserves it and lets no program block it; also ends threads of
                         tasks in thread mode (interpose/interpose.h), which make no calls */
};

/* By the reaper and by callers: the lender is not used again. */
void call_give_up(struct call_lender *lender, enum call_lender_kind kind);

/* By the root at the end of the space (serve.c). */
void call_space_ends(struct space *space);

/* The hooks of this layer (space/member.h). */
extern const struct member_hooks call_hooks;

#endif
