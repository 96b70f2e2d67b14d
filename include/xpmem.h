/* xpmem.h: the interface of XPMEM, served inside a space without the kernel module.
 *
 * One process names a range of its memory with xpmem_make; another, given that name, gets a
 * permit for it with xpmem_get and attaches parts of it with xpmem_attach. The interface, its
 * values and its errors are those of the kernel module's library (2.7.4), so that programs written
 * or compiled for that one run here unchanged.
 *
 * Between the root and the tasks of a onespace space, which share one address space, nothing
 * needs to be mapped: the calls make no system call, and an attachment is the owner's own address.
 * The declarations and docs/xpmem.md state the differences. Outside a space the calls go to
 * /dev/xpmem; without it they fail as on any machine without the module (ENOENT).
 *
 * All functions are thread-safe; none may be called from a signal handler. On failure they return
 * -1 (xpmem_attach: (void *)-1) and set errno. Since 0.1.0. (Table 4 of the HPDC'18 paper on
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
#define XPMEM_ERRNO_NOPROC 2004         /* an errno of the kernel module only */

/* xpmem_get */
#define XPMEM_RDONLY 0x1
#define XPMEM_RDWR   0x2

enum { XPMEM_PERMIT_MODE = 0x1 }; /* the only type of permission: file mode bits */

/* The version of the interface: 0x00027004, that is major 2, minor 7, revision 4. */
XPMEM_EXPORTED int xpmem_version(void);

/* Makes a segment of the `size` bytes at `address`, both multiples of the page size, or of all
 * memory (NULL, XPMEM_MAXADDR_SIZE). The range need not be mapped. permit_type is
 * XPMEM_PERMIT_MODE; permit_value has the mode bits that determine who may get the segment, such as
 * (void *)0600. The segment exists until xpmem_remove, or until its owner ends or executes another
 * program. Returns its id. EINVAL; ENOMEM: the process has 65,536 segments. */
XPMEM_EXPORTED xpmem_segid_t xpmem_make(void *address, size_t size, int permit_type,
                                        void *permit_value);

/* Removes a segment. It cannot be attached any more; existing attachments remain accessible (the
 * kernel module revokes them). 0. EINVAL; ENOENT: there is no such segment; EACCES: the caller is
 * not its owner. */
XPMEM_EXPORTED int xpmem_remove(xpmem_segid_t segid);

/* Gets a permit for a segment, for the calling process. flags is XPMEM_RDWR, or XPMEM_RDONLY, with
 * which nothing can be attached, as with the kernel module. permit_type is XPMEM_PERMIT_MODE;
 * permit_value is ignored. Until the permit is released the owner's memory stays mapped, even
 * beyond the owner's end. Returns the permit's id. EINVAL; ENOENT: there is no such segment;
 * EACCES: the segment's mode bits deny it; ENOMEM: the process has 65,536 permits. */
XPMEM_EXPORTED xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type,
                                      void *permit_value);

/* Releases a permit: its attachments must not be used any more. 0. EINVAL; ENOENT: there is no such
 * permit; EACCES: it is another process's. */
XPMEM_EXPORTED int xpmem_release(xpmem_apid_t apid);

/* Attaches `size` bytes, from addr.offset on, of the segment of permit addr.apid. Returns their
 * address, which is the owner's own; `at` is NULL or that address. EINVAL: also if the range
 * exceeds the segment; ENOENT: there is no such permit or segment any more; EACCES: the permit is
 * read-only or another process's. */
XPMEM_EXPORTED void *xpmem_attach(struct xpmem_addr addr, size_t size, void *at);

/* Detaches the attachment that contains this address. In a space it does nothing and accepts any
 * address. 0. */
XPMEM_EXPORTED int xpmem_detach(void *address);

/* Internals of the original library, exported as it exports them: configure scripts look for them.
 * xpmem_init opens the device, if it is needed; xpmem_ioctl takes the module's commands. */
XPMEM_EXPORTED int xpmem_init(void);
XPMEM_EXPORTED int xpmem_ioctl(int command, void *argument);

#ifdef __cplusplus
}
#endif
#endif
