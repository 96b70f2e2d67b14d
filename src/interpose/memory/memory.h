/* src/interpose/memory/memory.h: mapping, growing and unmapping a task's memory.
 *
 * The handlers are declared in interpose/calls.h; here is what they share. */
#ifndef ONESPACE_INTERPOSE_MEMORY_MEMORY_H
#define ONESPACE_INTERPOSE_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/shm.h>

#include "interpose/calls.h"

/* map.c: mmap, without a look for patch sites at the beginning of the file. */
long interpose_place(struct space_slot *self, const long arguments[6]);
/* mmap without an address, where libraries lie, or -errno. */
long map_among_files(struct space_slot *self, const long arguments[6]);

/* out_of_range.c: the calls, where they change mappings outside the range: these are recorded. */
long out_of_range_mmap(struct space_slot *self, const long arguments[6]);
long out_of_range_munmap(struct space_slot *self, uintptr_t start, size_t size);
long out_of_range_mremap(struct space_slot *self, const long arguments[6], int leaves_old);
long out_of_range_shmdt(struct space_slot *self, uintptr_t start);
void out_of_range_add(struct space_slot *self, uintptr_t start, size_t size);

/* remap.c: mremap to a place in the range, where the kernel would choose one outside. With an old
 * size of 0 it duplicates a shared mapping. -EEXIST: there is no room. */
long remap_into_range(struct space_slot *self, const long arguments[6]);

/* shared.c: the calls, where they may be answered with, or change, a mapping that other tasks use
 * too. NOT_SHARED: there is nothing to share; the call is to be made. */
enum { NOT_SHARED = 0 };
long shared_mmap(struct space_slot *self, const long arguments[6]);
long shared_shmat(struct space_slot *self, long id, long flags, const struct shmid_ds *segment);
/* Adds the attachments of System V segments that the kernel does not know of. */
void shared_count_attached(struct shmid_ds *segment, long id);
/* Of addresses that shared_windows_contain(). */
long shared_mmap_at(struct space_slot *self, const long arguments[6]);
/* `size`: of the segment, bytes. */
long shared_shmat_at(struct space_slot *self, size_t size, const long arguments[6]);
long shared_munmap(struct space_slot *self, const long arguments[6]);
long shared_mprotect(struct space_slot *self, long nr, const long arguments[6]);
long shared_mremap(struct space_slot *self, const long arguments[6]);
long shared_shmdt(struct space_slot *self, uintptr_t address);

/* brk.c: from now on the break moves without a system call: its room is mapped, and nothing of it
 * is unmapped. 0 if that was so before. The other undoes it. */
int brk_reserve(struct space_slot *self);
void brk_unreserve(struct space_slot *self);
/* The program changes mappings there: notes it if they are the heap's. */
void brk_note_change(struct space_slot *self, uintptr_t start, size_t size);

/* seal.c: whether the task has sealed what the call would change. */
int seal_forbids(const struct space_slot *self, long nr, const long arguments[6]);

/* dontfork.c: a call that changes the map has succeeded. */
void dontfork_note(struct space_slot *self, long nr, const long arguments[6], long result);

#endif
