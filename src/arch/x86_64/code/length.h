/* src/arch/x86_64/code/length.h: where instructions end and relative branches lead. Freestanding.
 */
#ifndef ONESPACE_ARCH_LENGTH_H
#define ONESPACE_ARCH_LENGTH_H

#include <stddef.h>
#include <stdint.h>

enum { ARCH_INSTRUCTION_BYTES = 15 }; /* of the longest instruction */

struct arch_instruction {
    unsigned char length;
    unsigned char branch; /* it is a branch whose target follows from `distance` */
    int32_t distance;     /* of the target from the instruction's end */
};

/* Decodes what stands at code[0, available): 0, or -1 when it is no instruction or not all there.
 * Knows lengths, not meanings: some bytes that the CPU refuses are taken for instructions too. */
int arch_decode(const unsigned char *code, size_t available, struct arch_instruction *instruction);

#endif
