/* src/insitu/ends.h: what a member's end undoes here. */
#ifndef ONESPACE_INSITU_ENDS_H
#define ONESPACE_INSITU_ENDS_H

#include "task/hooks.h"

/* A gone member gives back what it held, and its channels end. */
extern const struct layer_hooks insitu_hooks;

#endif
