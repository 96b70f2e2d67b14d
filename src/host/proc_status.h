/* src/host/proc_status.h: what text files of /proc/PID say. */
#ifndef ONESPACE_HOST_PROC_STATUS_H
#define ONESPACE_HOST_PROC_STATUS_H

#include <sys/resource.h>

/* The text of /proc/PID/status or another file, 0 for the caller's; to be freed. NULL with errno.
 */
char *proc_status_read(int pid);
char *proc_text_read(int pid, const char *name);
/* The rest of the line that begins with `field`, as in "Uid:", or NULL. Not for Name, the first
 * line. */
const char *proc_status_field(const char *status, const char *field);
/* Soft and hard limits by number, at most `count`, from the text of /proc/PID/limits. 0, or -EPROTO
 * when there are fewer. */
int proc_limits_parse(const char *text, struct rlimit *limits, unsigned count);

#endif
