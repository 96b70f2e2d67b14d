/* src/arch/aarch64/call_offsets.h: what call.S must know of struct arch_call_frame. Asserted in
 * call.c. */
#ifndef ONESPACE_ARCH_CALL_OFFSETS_H
#define ONESPACE_ARCH_CALL_OFFSETS_H

#define ARCH_FRAME_OWN_STACK   0
#define ARCH_FRAME_OWN_POINTER 8
#define ARCH_FRAME_POINTER     16
#define ARCH_FRAME_STACK       24
#define ARCH_FRAME_BOUNDARY    32
#define ARCH_FRAME_FUNCTION    40
#define ARCH_FRAME_ARGUMENTS   48
#define ARCH_FRAME_GONE        56
#define ARCH_FRAME_RESULT      64
#define ARCH_FRAME_LEAVE       72
#define ARCH_FRAME_ARMED       80
#define ARCH_FRAME_FPCR        88

#endif
