/* pip/xpmem.h: XPMEM as Process-in-Process 2.4 installs it. Here it is the same interface as
 * elsewhere, in a library of its own: link with -lxpmem (pkg-config cray-xpmem). */
#ifndef PIP_XPMEM_H
#define PIP_XPMEM_H

#include <xpmem.h>

#endif
