/* src/arch/x86_64/constants.h: constants of the CPU, of the kernel's interface for it, and of its
 * ELF files. */
#ifndef ONESPACE_ARCH_CONSTANTS_H
#define ONESPACE_ARCH_CONSTANTS_H

#include <elf.h>
#include <stdint.h>

enum {
    ARCH_PAGE = 4096,
    ARCH_PAGE_MIN = ARCH_PAGE, /* all kernels have the same */
    ARCH_PAGE_MAX = ARCH_PAGE,
    ARCH_HUGE_PAGE = 2 << 20,
    ARCH_MAP_LOW = 0x40,       /* MAP_32BIT */
    ARCH_SIGNAL_SET_BYTES = 8, /* of the kernel's sigset_t */
};

/* First address that no user mapping reaches (with four-level page tables, as the kernel gives
 * unless asked for more). */
#define ARCH_ADDRESS_END UINT64_C(0x7ffffffff000)

/* The kernel's SA_RESTORER, which no libc's header has: rt_sigaction needs arch_signal_restorer. */
#define ARCH_SA_RESTORER 0x04000000ul

/* The signature with which all libcs register restartable sequences. */
#define ARCH_RSEQ_SIGNATURE 0x53053053u

/* ARCH_MULTIARCH: the library directory of Debian and its derivatives. */
#define ARCH_NAME        "x86-64"
#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_ELF_CLASS   ELFCLASS64
#define ARCH_ELF_DATA    ELFDATA2LSB
#define ARCH_ELF_BITS    64
#define ARCH_MULTIARCH   "x86_64-linux-gnu"

/* The kernel's default without a PT_GNU_STACK: not executable for 64 bit since Linux 5.8. */
#define ARCH_STACK_EXECUTABLE 0

#endif
