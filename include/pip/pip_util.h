/* pip/pip_util.h: what a program shows of itself while it is debugged, as programs of
 * Process-in-Process 2.4 call it. Any member and any other process may call these; none by a signal
 * handler. Since onespace 0.1.0. */
#ifndef PIP_PIP_UTIL_H
#define PIP_PIP_UTIL_H

#include <pip/pip.h>

#define PIPIDLEN 64

#ifdef __cplusplus
extern "C" {
#endif

/* The caller's /proc/self/maps, to standard error. */
void pip_print_maps(void);
/* A line for a descriptor of the caller, or for each: its file, and [COE] if exec closes it. */
void pip_print_fd(FILE *file, int fd);
void pip_print_fds(FILE *file);
/* The mapping that holds an address, to standard error, after the tag (NULL: the caller's PID). */
void pip_check_addr(char *tag, void *address);
/* The libraries of the caller, with their addresses; pip_print_dsos: to standard error. */
void pip_print_loaded_solibs(FILE *file);
void pip_print_dsos(void);

#ifdef __cplusplus
}
#endif

#endif
