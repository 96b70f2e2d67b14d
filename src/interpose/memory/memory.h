/* src/interpose/memory/memory.h: mapping, growing and unmapping a task's memory.
 *
 * The handlers are declared in interpose/calls.h; here is what they share. */
#ifndef ONESPACE_INTERPOSE_MEMORY_MEMORY_H
#define ONESPACE_INTERPOSE_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "interpose/calls.h"

/* out_of_range.c: mmap whose result may lie outside the range, and is recorded then. */
long out_of_range_mmap(struct space_slot *self, const long arguments[6]);
void out_of_range_add(struct space_slot *self, uintptr_t start, size_t size);
void out_of_range_remove(struct space_slot *self, uintptr_t start, size_t size);
/* Removes the whole entry that starts there. */
void out_of_range_forget(struct space_slot *self, uintptr_t start);

#endif
