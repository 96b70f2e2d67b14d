/* src/arch/aarch64/constants.h: constants of the CPU, of the kernel's interface for it, and of its
 * ELF files. */
#ifndef ONESPACE_ARCH_CONSTANTS_H
#define ONESPACE_ARCH_CONSTANTS_H

#include <elf.h>
#include <stdint.h>

enum {
    ARCH_PAGE_MIN = 4096, /* of the pages that a kernel may have: 4, 16 or 64 KiB */
    ARCH_PAGE_MAX = 65536,
    ARCH_MAP_LOW = 0,          /* no flag asks for a low address */
    ARCH_SIGNAL_SET_BYTES = 8, /* of the kernel's sigset_t */
};

/* The kernel's page. Set before other constructors of the same file run (page.c), constant then. */
extern unsigned arch_page_size __attribute__((visibility("hidden")));
#define ARCH_PAGE ((long)arch_page_size)

/* The memory that one entry of the second-last level of page tables maps, a page of 8-byte entries:
 * 2 MiB, 32 MiB or 512 MiB. */
#define ARCH_HUGE_PAGE (ARCH_PAGE * (ARCH_PAGE / 8))

/* First address that no user mapping reaches (with 48-bit addresses, as the kernel gives unless
 * asked for more). */
#define ARCH_ADDRESS_END UINT64_C(0xfffffffff000)

/* The kernel's SA_RESTORER, which no libc's header has and no libc uses here; the kernel accepts
 * it. */
#define ARCH_SA_RESTORER 0x04000000ul

/* The signature with which all libcs register restartable sequences. */
#define ARCH_RSEQ_SIGNATURE 0xd428bc00u

/* ARCH_MULTIARCH: the library directory of Debian and its derivatives. */
#define ARCH_NAME        "aarch64"
#define ARCH_ELF_MACHINE EM_AARCH64
#define ARCH_ELF_CLASS   ELFCLASS64
#define ARCH_ELF_DATA    ELFDATA2LSB
#define ARCH_ELF_BITS    64
#define ARCH_MULTIARCH   "aarch64-linux-gnu"

/* The kernel's default without a PT_GNU_STACK: not executable for 64 bit since Linux 5.8. */
#define ARCH_STACK_EXECUTABLE 0

#endif
