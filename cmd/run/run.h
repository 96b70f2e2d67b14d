/* cmd/run/run.h: what `onespace run` was asked to do. */
#ifndef ONESPACE_CMD_RUN_RUN_H
#define ONESPACE_CMD_RUN_RUN_H

#include <stddef.h>

#include "host/job/report.h"
#include "onespace.h"

enum { RUN_SEGMENTS_MAX = 64 };

struct run_segment { /* one program */
    char **argv;
    int count;
    unsigned flags; /* ONESPACE_SPAWN_* */
    size_t stack_size;
};

struct run_options {
    struct run_segment segments[RUN_SEGMENTS_MAX];
    int segment_count;
    int counted; /* -n was given: by hand, whatever launcher is around */
    const char *space, *bind;
    int kill_on_failure, verbose;
    enum report_detail stats;
    int thread_mode; /* by hand: tasks are threads of this process */
};

/* options.c: fills *run, which is zeroed. 0, or -1 with a message. --help ends the process. */
int run_parse(int argc, char **argv, struct run_options *run);

/* verbose.c, for --verbose, on standard error, one line each: what a rank under a launcher has to
 * itself (number is -1 where the launcher gives none); what all tasks of a job have in common,
 * before defaults_set; by hand, the space, and its Python interpreters that run from their library.
 */
void verbose_say_rank(const struct run_segment *segment, const char *space, const char *found_by,
                      int number, int count);
void verbose_say_job(const struct run_segment *segment, const char *launcher, unsigned ranks);
void verbose_say_own_space(const struct run_options *run);

/* singletons.c: by hand and without a launcher: says if the tasks will be MPI jobs of one rank
 * each. */
void run_say_singletons(const struct run_options *run);

/* observer.c: a process that says why the kernel has ended this one, until observer_end. Before the
 * space is made. */
void observer_start(void);
void observer_end(void);

/* Makes a space in this process and runs all programs in it. The exit status. */
int run_by_hand(const struct run_options *run);

#endif
