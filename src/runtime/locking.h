/* src/runtime/locking.h: tell this program's libc that it is not alone with its memory. */
#ifndef ONESPACE_RUNTIME_LOCKING_H
#define ONESPACE_RUNTIME_LOCKING_H

/* 0, or -EAGAIN when there is no thread to be had; then it may be called again. Not from signal
 * handlers. */
int locking_begin(void);

#endif
