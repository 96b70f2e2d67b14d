/* cmd/ps/code.h: the code of the space: the root's copy of onespace, which all members run. */
#ifndef ONESPACE_CMD_PS_CODE_H
#define ONESPACE_CMD_PS_CODE_H

#include <limits.h>

#include "cmd/ps/ps.h"

struct code { /* the file that holds the code of the space */
    char path[PATH_MAX];
    uintptr_t base, low, high; /* where its file begins; its code */
};

/* Where the root has that code, by an address in it. 0, or -1 when the space has ended. */
int code_find(const struct ps_space *space, struct code *code);

#endif
