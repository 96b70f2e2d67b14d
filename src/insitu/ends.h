/* src/insitu/ends.h: what is undone when a member ends. */
#ifndef ONESPACE_INSITU_ENDS_H
#define ONESPACE_INSITU_ENDS_H

#include "space/member.h"

/* When a member has ended, the steps that it held are released, and the channels that it produced
 * for end. */
extern const struct member_hooks insitu_hooks;

#endif
