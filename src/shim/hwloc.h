/* src/shim/hwloc.h: hwloc's functions, which are loaded when somebody needs them. */
#ifndef ONESPACE_SHIM_HWLOC_H
#define ONESPACE_SHIM_HWLOC_H

#include <hwloc.h>
#include <stddef.h>

/* Before any function of hwloc is called. 0, or -1 with *message. */
int hwloc_load(char *message, size_t size);

#endif
