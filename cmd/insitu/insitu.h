/* cmd/insitu/insitu.h: `onespace insitu`: look at the steps of a channel (onespace/insitu.h), and
 * write them to files.
 *
 * Both are consumers, and so members of the channel's space: started outside of it the command
 * becomes `onespace run --space NAME` of itself. */
#ifndef ONESPACE_CMD_INSITU_INSITU_H
#define ONESPACE_CMD_INSITU_INSITU_H

struct insitu_request {
    const char *verb; /* "watch", "dump" */
    const char *channel;
    const char *space;  /* its name; NULL: the one that has the channel */
    const char *wait;   /* seconds to wait for the channel; a number that was checked */
    const char *count;  /* looks, or steps; NULL: all */
    double interval;    /* seconds between two looks */
    const char *output; /* a file; NULL: named after the channel */
    int every;          /* each step, not the newest */
    int is_joined;      /* started by the command itself: looks for no space */
    char *const *words; /* the command's own after the verb, for the task; the last is NULL */
};

/* Whether this process is a task. */
int insitu_is_task(void);
/* Becomes `onespace run --space NAME` of a program, in the space that the request means. Both parts
 * of the program's command line end with NULL. Returns an exit status, with a message, only if that
 * fails. */
int insitu_become_task(const struct insitu_request *request, const char *const *first,
                       char *const *rest);

/* Each returns an exit status. */
int insitu_watch(const struct insitu_request *request);
int insitu_dump(const struct insitu_request *request);

#endif
