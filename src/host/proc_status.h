/* src/host/proc_status.h: fields of /proc/PID/status. */
#ifndef ONESPACE_HOST_PROC_STATUS_H
#define ONESPACE_HOST_PROC_STATUS_H

/* The text of /proc/PID/status, 0 for the caller's; to be freed. NULL with errno. */
char *proc_status_read(int pid);
/* The rest of the line that begins with `field`, as in "Uid:", or NULL. Not for Name, the first
 * line. */
const char *proc_status_field(const char *status, const char *field);

#endif
