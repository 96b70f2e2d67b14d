/* src/space/force_locking.h: make this program's libc use atomic instructions in its locks. */
#ifndef ONESPACE_RUNTIME_LOCKING_H
#define ONESPACE_RUNTIME_LOCKING_H

/* 0, or -EAGAIN if no thread can be made; it may be called again then. Not from signal handlers. */
int locking_begin(void);

#endif
