/* src/host/host.h: the process that owns a named space and runs the tasks that shims ask for. */
#ifndef ONESPACE_HOST_HOST_H
#define ONESPACE_HOST_HOST_H

#include <stddef.h>

/* Serves on the listening socket until the last task has ended and the last shim is gone, then
 * removes the socket. While fewer than `expected` tasks have come it lingers longer, as long as
 * process `launcher` lives (0: unknown). Returns an exit status. */
int host_serve(int listener, const char *directory, const char *name, int expected, int launcher);

/* Starts a host for space `name` in the background (the caller holds the directory's lock) and
 * waits until it has been executed. 0 or -errno, and no socket is left. */
int host_start(const char *directory, const char *name, int expected, int launcher);

/* Removes the sockets in the directory that no process listens on, those of hosts that were killed,
 * and the directory if none is left. The caller holds the directory's lock. */
void host_sweep(const char *directory);

/* Connects to the host of space `name` if there is one: a socket or -errno. */
int host_find(const char *name);

/* Removes what the host of space `name` and others have left that were killed. */
void host_tidy(const char *name);

/* Connects to the host of space `name`, which is started if there is none. A socket, or -errno with
 * a message. */
int host_connect(const char *name, int launcher, int expected, char *message, size_t size);

#endif
