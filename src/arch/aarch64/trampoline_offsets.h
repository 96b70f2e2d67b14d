/* src/arch/aarch64/trampoline_offsets.h: offsets that trampoline.S needs; asserted in trampoline.c.
 */
#ifndef ONESPACE_ARCH_TRAMPOLINE_OFFSETS_H
#define ONESPACE_ARCH_TRAMPOLINE_OFFSETS_H

#define ARCH_DATA_BYTES          4096 /* at a multiple of which the data page lies */
#define ARCH_DATA_CALL_ENTRY     0
#define ARCH_DATA_SELF           8
#define ARCH_DATA_CALL_HANDLER   16
#define ARCH_DATA_FAULT_HANDLER  24
#define ARCH_CALL_NR             8
#define ARCH_CALL_RESUME         16
#define ARCH_CALL_SCRATCH        32
#define ARCH_CALL_TRAMPOLINE     32 /* bytes of a trampoline */
#define ARCH_TRAMPOLINE_DISTANCE 24 /* in it: of its record */

#endif
