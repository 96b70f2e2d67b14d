/* src/interpose/pointers.h: read and write through pointers of the program, which may be bad.
 *
 * The kernel copies, so that a bad pointer is an error whatever the program does with SIGSEGV and
 * SIGBUS: where they are blocked, ignored or the handler is not ours, a fault would kill. Only if a
 * seccomp filter denies process_vm_readv is the copy a guarded one (arch/copy.h). Freestanding. */
#ifndef ONESPACE_INTERPOSE_POINTERS_H
#define ONESPACE_INTERPOSE_POINTERS_H

#include <stddef.h>

/* 0 or -EFAULT. `from` of the first and `to` of the second are the program's. */
int interpose_copy_from_user(void *to, const void *from, size_t size);
int interpose_copy_to_user(void *to, const void *from, size_t size);

#endif
