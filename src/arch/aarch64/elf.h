/* src/arch/aarch64/elf.h: which ELF files run here. */
#ifndef ONESPACE_ARCH_ELF_H
#define ONESPACE_ARCH_ELF_H

#include <elf.h>

#include "arch/constants.h"

/* ARCH_MULTIARCH: the library directory of Debian and its derivatives. */
#define ARCH_NAME        "aarch64"
#define ARCH_ELF_MACHINE EM_AARCH64
#define ARCH_ELF_CLASS   ELFCLASS64
#define ARCH_ELF_DATA    ELFDATA2LSB
#define ARCH_ELF_BITS    64
#define ARCH_MULTIARCH   "aarch64-linux-gnu"

/* What the kernel assumes without a PT_GNU_STACK: not executable for 64 bit since Linux 5.8. */
#define ARCH_STACK_EXECUTABLE 0

#endif
