/* src/arch/x86_64/arch_elf.h: which ELF files run here, and the limits of their addresses.
 *
 * Not called elf.h: this folder is on the include path and would hide the system's <elf.h>. */
#ifndef ONESPACE_ARCH_ELF_H
#define ONESPACE_ARCH_ELF_H

#include <elf.h>

#define ARCH_NAME        "x86-64"
#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_ELF_CLASS   ELFCLASS64
#define ARCH_ELF_DATA    ELFDATA2LSB
#define ARCH_ELF_BITS    64
#define ARCH_MULTIARCH   "x86_64-linux-gnu" /* the library folder of Debian and its kin */

/* The one page size of the processor; segments must be laid out for it. */
#define ARCH_PAGE_SIZE 4096UL

/* First address no user mapping reaches (with four-level page tables, as the kernel gives unless
 * asked for more). */
#define ARCH_ADDRESS_END 0x7ffffffff000UL

/* What the kernel takes when there is no PT_GNU_STACK: not executable for 64 bit since Linux 5.8.
 */
#define ARCH_STACK_EXECUTABLE 0

#endif
