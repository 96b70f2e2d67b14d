/* src/mpi/storage/claim.h: which bytes of which file a rank's part lies on. */
#ifndef ONESPACE_MPI_STORAGE_CLAIM_H
#define ONESPACE_MPI_STORAGE_CLAIM_H

#include "mpi/group/agreement.h"
#include "mpi/storage/window.h"

/* What a rank tells the others about its file. */
struct storage_claim {
    int32_t error; /* an error class */
    int32_t is_contiguous, is_memory, has_offset;
    uint64_t device, inode, path; /* path: hash of the resolved path; 0: no file */
    uint64_t offset, length;      /* of the file */
};
_Static_assert(sizeof(struct storage_claim) <= AGREEMENT_RECORD_MAX, "a record");

/* This rank's claim, once its file is open; error: an error class. */
struct storage_claim storage_claim_of(const struct storage_window *storage, int error);
/* Given all ranks' claims and the sizes of their parts, locks, reserves and maps this rank's. In a
 * contiguous window it sets offsets and lengths in `all`. call: the MPI function, for messages. 0
 * or -errno. */
int storage_claim(struct storage_window *storage, const struct group *group, const uint64_t *sizes,
                  struct storage_claim *all, const char *call, struct storage_error *error);

#endif
