/* src/base/kernel.h: which Linux this is. Freestanding. */
#ifndef ONESPACE_BASE_KERNEL_H
#define ONESPACE_BASE_KERNEL_H

#include <stdint.h>

#define KERNEL_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* As KERNEL_VERSION makes it; 0: it cannot be told. */
uint32_t kernel_version(void);

#endif
