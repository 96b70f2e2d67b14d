/* cmd/ps/access.h: whether this user may trace a process. */
#ifndef ONESPACE_CMD_PS_ACCESS_H
#define ONESPACE_CMD_PS_ACCESS_H

/* The process that traces this one, or 0. */
int access_tracer(int pid);

/* 0 when it may be traced or has ended; 1 after a message that begins with the command's name. */
int access_check(const char *command, int pid);

#endif
