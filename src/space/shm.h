/* src/space/shm.h: files below /dev/shm that the space itself keeps.
 *
 * Where a node's /dev/shm is missing or too small for the job, its tasks' names below it are names
 * of memory files (memfd_create) that a process of the root's holds: the server
 * (launch/shm_server.c). A task's calls on such paths become requests (interpose/shm.c), one per
 * connection to the server's abstract socket: a struct shm_request, a struct shm_reply, and with it
 * the opened file. The memory is charged to the control group of the task that touches it first,
 * and ends with the last descriptor and mapping. The names end with the server, at the latest when
 * the root does. */
#ifndef ONESPACE_SPACE_SHM_H
#define ONESPACE_SPACE_SHM_H

#include <stdint.h>

#define SHM_DIRECTORY "/dev/shm"

enum {
    SHM_NAME_SIZE = 256,  /* with the terminating zero; as long as tmpfs allows */
    SHM_SOCKET_SIZE = 16, /* of an abstract address that the kernel has chosen */
};

enum shm_operation {
    SHM_OPEN,   /* `flags` and `mode` as for open; the reply carries the descriptor */
    SHM_UNLINK, /* `name` */
    SHM_LINK,   /* `name` gets the further name `to` */
    SHM_RENAME, /* `name` becomes `to`, which is replaced; flags: of renameat2, NOREPLACE or 0 */
    SHM_STATFS, /* of the whole directory */
};

struct shm_request {
    uint32_t operation; /* enum shm_operation */
    int32_t flags;
    uint32_t mode;                               /* of SHM_OPEN */
    char name[SHM_NAME_SIZE], to[SHM_NAME_SIZE]; /* below the directory, without a slash */
};

struct shm_reply {
    int32_t result; /* 0 or -errno */
    uint32_t unused;
    uint64_t total, available; /* SHM_STATFS: bytes */
};

/* In the registry. Written by the root before its first task. */
struct space_shm {
    uint32_t is_used;      /* 0: tasks use the system's directory */
    uint32_t address_size; /* of the socket's address in `address`, for connect */
    char address[SHM_SOCKET_SIZE];
};

#endif
