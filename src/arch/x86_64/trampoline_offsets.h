/* src/arch/x86_64/trampoline_offsets.h: offsets that trampoline.S needs; asserted in trampoline.c.
 */
#ifndef ONESPACE_ARCH_TRAMPOLINE_OFFSETS_H
#define ONESPACE_ARCH_TRAMPOLINE_OFFSETS_H

#define ARCH_DATA_BYTES         4096 /* at a multiple of which the data page lies */
#define ARCH_DATA_CALL_HANDLER  24
#define ARCH_DATA_CPUID_HANDLER 32
#define ARCH_CALL_RESUME        16

#endif
