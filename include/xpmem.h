/* xpmem.h: the interface of XPMEM, served inside a space without the kernel module.
 *
 * One process names a range of its memory with xpmem_make; another, given that name, gets a permit
 * for it with xpmem_get and attaches parts of it with xpmem_attach. The interface, its values and
 * its errors are those of the kernel module's library (2.7.4), so that programs written or
 * compiled for that one run here unchanged.
 *
 * Between the root and the tasks of a onespace space, which share one address space, nothing needs
 * to be mapped: the calls make no system call, and an attachment is the owner's own address. Where
 * that shows is said below and in docs/xpmem.md. Outside a space the calls go to /dev/xpmem; where
 * that is missing they fail as they do on any machine without the module (ENOENT).
 *
 * All functions are thread-safe; none may be called from a signal handler. Failure is -1 (of
 * xpmem_attach (void *)-1) with errno set. Since 0.1.0. (Table 4 of the HPDC'18 paper on
 * Process-in-Process; section 5 of the comparison of shared memory and shared address space.) */
#ifndef XPMEM_H
#define XPMEM_H

#include <linux/types.h>
#include <stddef.h>
#include <sys/types.h>

#if defined(__GNUC__)
#define XPMEM_EXPORTED __attribute__((visibility("default")))
#else
#define XPMEM_EXPORTED
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef __s64 xpmem_segid_t; /* a segment; positive, the owner's process id in the low 32 bits */
typedef __s64 xpmem_apid_t;  /* a permit; positive, the holder's process id in the low 32 bits */

struct xpmem_addr {
    xpmem_apid_t apid; /* the permit */
    off_t offset;      /* bytes from the start of its segment: a multiple of the page size */
};

#define XPMEM_MAXADDR_SIZE ((size_t)-1) /* with address 0: all of the caller's memory */
#define XPMEM_ERRNO_NOPROC 2004         /* by the kernel module only */

/* xpmem_get */
#define XPMEM_RDONLY 0x1
#define XPMEM_RDWR   0x2

enum { XPMEM_PERMIT_MODE = 0x1 }; /* the only type of permission: file mode bits */

/* 0x00027004: major 2, minor 7, revision 4. */
XPMEM_EXPORTED int xpmem_version(void);

/* Names [address, address+size), both multiples of the page size, or everything (NULL,
 * XPMEM_MAXADDR_SIZE). What is mapped there is not looked at. permit_value: mode bits, such as
 * (void *)0600, that say who may get it. The segment lasts until xpmem_remove or until its owner
 * ends or executes another program. EINVAL; ENOMEM (65,536 segments of one process). */
XPMEM_EXPORTED xpmem_segid_t xpmem_make(void *address, size_t size, int permit_type,
                                        void *permit_value);

/* Takes the name back; owner only. Nothing can be attached through it any more; what is attached
 * stays readable (the kernel module revokes it). EINVAL, ENOENT, EACCES. */
XPMEM_EXPORTED int xpmem_remove(xpmem_segid_t segid);

/* A permit for a segment, for the calling process: flags XPMEM_RDWR, or XPMEM_RDONLY, with which
 * nothing can be attached, as with the kernel module. Until it is released the owner's memory is
 * kept, also beyond the owner's end. EINVAL, ENOENT, EACCES, ENOMEM (65,536 permits of one
 * process). */
XPMEM_EXPORTED xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type,
                                      void *permit_value);

/* Gives a permit back, and detaches all that was attached with it. EINVAL, ENOENT, EACCES. */
XPMEM_EXPORTED int xpmem_release(xpmem_apid_t apid);

/* Attaches `size` bytes, rounded up to pages. Gives the owner's own address; `at` is NULL or that
 * address. EINVAL, ENOENT, EACCES. */
XPMEM_EXPORTED void *xpmem_attach(struct xpmem_addr addr, size_t size, void *at);

/* Detaches what is attached at this address, which may be any inside the attachment. There is
 * nothing to undo, and any address will do. */
XPMEM_EXPORTED int xpmem_detach(void *address);

/* The library's own, exported as the original exports them; configure scripts look for them. */
XPMEM_EXPORTED int xpmem_init(void);
XPMEM_EXPORTED int xpmem_ioctl(int command, void *argument);

#ifdef __cplusplus
}
#endif
#endif
