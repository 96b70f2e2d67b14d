/* src/host/launch.h: the ranks that one launcher starts in a space: they start together or fail
 * together.
 *
 * When one of them cannot start, its launch has failed: the host tells all others that come the
 * same, and their shims say it once (job/told.h). The launcher ends the ranks that run already, as
 * it ends those of plain processes; where it does not, the host does, two seconds later. */
#ifndef ONESPACE_HOST_LAUNCH_H
#define ONESPACE_HOST_LAUNCH_H

#include <stdint.h>

#include "host/job/job.h"

struct host;

struct launch {
    uint64_t id;
    unsigned ranks;   /* that the launcher starts on this node */
    unsigned members; /* jobs and clients */
    unsigned running; /* of these, clients */
    int token;        /* or negative: there was no descriptor for it */
    int error;        /* of the rank that could not start, or 0 */
    int64_t failed_ms;
    uint32_t refused;   /* calls for lack of mappings, before it began */
    int is_short_told;  /* that mappings have run out */
    int64_t short_ms;   /* since when no mappings have been left, or 0 */
    char message[1024]; /* why it failed, or a warning that nobody has been told */
    struct launch *next;
};

/* The launch of a job that has been received, which becomes a member. NULL: it was not started by a
 * launcher, or there is no memory. The first member learns whether there is room for all. */
struct launch *launch_join(struct host *host, const struct protocol_request *request);
/* A member has gone. */
void launch_leave(struct host *host, struct launch *launch);
/* The job's shim learns that the host has it: 0 or -errno. */
int launch_greet(struct job *job);
/* What is to be said about the launch has been said. */
void launch_silence(struct launch *launch);
/* Refuses the job, and frees it; if it is a launch's, all others of that launch that wait, too. */
void launch_refuse(struct host *host, struct job *job, int error, const char *message);
/* Ends the tasks of launches that have failed and that their launchers have not ended. */
void launch_end_failed(struct host *host);
/* Whether launch_end_failed has something to wait for. */
int launch_is_ending(const struct host *host);
/* Whether a launch failed some time ago: those of its ranks that come yet are not waited for. */
int launch_is_over(const struct host *host);
/* Calls have failed for lack of mappings: tells the running ranks of each launch, and ends those of
 * a launch that has had none for two seconds. Ranks that wait for one that could not go on would
 * wait for ever. To be called for some seconds after such a call. */
void launch_watch_mappings(struct host *host);
/* A member's task has ended: if badly, and mappings have run out, the launch has failed. Says so if
 * nobody has, unless there is a message already. */
void launch_say_shortage(struct launch *launch, int status, char *message, size_t size);

#endif
