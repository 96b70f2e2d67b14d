/* src/arch/aarch64/copy.h: copies that may fault. Freestanding. */
#ifndef ONESPACE_ARCH_COPY_H
#define ONESPACE_ARCH_COPY_H

#include "cpu/interface.h"

#define ARCH_DETECTS 0 /* all CPUs have what is used */

#endif
