/* cmd/ps/access.h: whether this user may trace a process. */
#ifndef ONESPACE_CMD_PS_ACCESS_H
#define ONESPACE_CMD_PS_ACCESS_H

enum { YAMA_NOBODY = 3 }; /* the scope in which root may not trace either, and which stays */

/* The process that traces this one, or 0. */
int access_tracer(int pid);

/* kernel.yama.ptrace_scope; 0 where the kernel has no Yama. */
int access_yama_scope(void);

/* 0 when it may be traced or has ended; 1 after a message that begins with the command's name. */
int access_check(const char *command, int pid);

#endif
