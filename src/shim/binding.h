/* src/shim/binding.h: --cpu-bind. */
#ifndef ONESPACE_SHIM_BINDING_H
#define ONESPACE_SHIM_BINDING_H

#include <sched.h>
#include <stddef.h>

/* The CPUs of task `number` of `count` under `policy`: "none", "core" (one core each, spread
 * over the machine), or a list "0,2-4" whose entries are assigned round-robin. 1 when *cpus was
 * set, 0 when the task is not to be bound, -EINVAL with *message for a bad policy. */
int binding_find(const char *policy, int number, int count, cpu_set_t *cpus, char *message,
                 size_t size);

#endif
