/* src/pip/modes.c: the execution mode that pip_init's options and PIP_MODE select. */
#include <stdlib.h>
#include <strings.h>

#include "state.h"

static const struct {
    const char *name;
    unsigned modes; /* those that the name allows */
} names[] = {
    {PIP_ENV_MODE_PROCESS, PIP_MODE_PROCESS},
    {PIP_ENV_MODE_PROCESS_PRELOAD, PIP_MODE_PROCESS_PRELOAD},
    {PIP_ENV_MODE_PROCESS_PIPCLONE, PIP_MODE_PROCESS_PIPCLONE},
    {PIP_ENV_MODE_THREAD, PIP_MODE_PTHREAD},
    {PIP_ENV_MODE_PTHREAD, PIP_MODE_PTHREAD},
};

/* The modes that the environment allows; 0: it names one that does not exist. */
static unsigned allowed_by_environment(void)
{
    const char *wanted = getenv(PIP_ENV_MODE);
    if (!wanted || !*wanted)
        return PIP_MODE_PROCESS | PIP_MODE_PTHREAD;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(wanted, names[i].name) == 0)
            return names[i].modes;
    pip_err_mesg("%s=%s: not an execution mode; set process or pthread", PIP_ENV_MODE, wanted);
    return 0;
}

int mode_choose(int opts, int *mode)
{
    unsigned asked = (unsigned)opts & PIP_MODE_MASK;
    if ((unsigned)opts & ~PIP_MODE_MASK)
        return EPERM;
    if (asked && asked != PIP_MODE_PROCESS && asked != PIP_MODE_PROCESS_PRELOAD &&
        asked != PIP_MODE_PROCESS_PIPCLONE && asked != PIP_MODE_PTHREAD)
        return EINVAL;
    unsigned allowed = allowed_by_environment();
    if (asked)
        allowed &= asked;
    if (allowed & PIP_MODE_PROCESS_PRELOAD)
        *mode = PIP_MODE_PROCESS_PRELOAD;
    else if (allowed & PIP_MODE_PROCESS_PIPCLONE)
        *mode = PIP_MODE_PROCESS_PIPCLONE;
    else if (allowed & PIP_MODE_PTHREAD)
        *mode = PIP_MODE_PTHREAD;
    else
        return EPERM;
    return 0;
}

const char *mode_name(int mode)
{
    return mode == PIP_MODE_PTHREAD            ? PIP_ENV_MODE_PTHREAD
           : mode == PIP_MODE_PROCESS_PIPCLONE ? PIP_ENV_MODE_PROCESS_PIPCLONE
                                               : PIP_ENV_MODE_PROCESS_PRELOAD;
}

char mode_sign(int mode)
{
    return mode == PIP_MODE_PTHREAD ? '|' : mode == PIP_MODE_PROCESS_PIPCLONE ? ';' : ':';
}
