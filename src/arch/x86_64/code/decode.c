/* src/arch/x86_64/code/decode.c: the length of an instruction in 64-bit mode.
 *
 * An instruction is prefixes, an opcode of one of several maps, ModRM with its displacement, and an
 * immediate. SSE4a's extrq and insertq with two immediates, which no compiler emits unasked, get a
 * wrong length: what follows them is decoded from a wrong start until it falls into step again. */
#include "arch/code/decode.h"

/* clang-format off */
/* The bytes that follow an opcode, sixteen opcodes a line:
 *   .  nothing                            M  ModRM
 *   b  an immediate of one byte           B  ModRM and that
 *   z  of four bytes (two after 66)       Z  ModRM and that
 *   w  of two bytes                       e  of three (enter)
 *   v  of four, or eight after REX.W      o  an address of eight bytes, or four after 67
 *   j  a branch's distance of one byte    J  of four
 *   g  ModRM, and b for test of group 3   G  ModRM, and z for test of group 3
 *   p  a prefix, or an escape that is dealt with before
 *   x  no instruction */
static const char one_byte[] = "MMMMbzxxMMMMbzxp" /* 00 */
                               "MMMMbzxxMMMMbzxx" /* 10 */
                               "MMMMbzpxMMMMbzpx" /* 20 */
                               "MMMMbzpxMMMMbzpx" /* 30 */
                               "pppppppppppppppp" /* 40: REX */
                               "................" /* 50 */
                               "xxpMppppzZbB...." /* 60 */
                               "jjjjjjjjjjjjjjjj" /* 70 */
                               "BZxBMMMMMMMMMMMM" /* 80 */
                               "..........x....." /* 90 */
                               "oooo....bz......" /* a0 */
                               "bbbbbbbbvvvvvvvv" /* b0 */
                               "BBw.ppBZe.w..bx." /* c0 */
                               "MMMMxpx.MMMMMMMM" /* d0 */
                               "jjjjbbbbJJxj...." /* e0 */
                               "p.pp..gG......MM" /* f0 */;

static const char two_bytes[] =
    "MMMMx.....x.xM.B" /* 0f 00 */
    "MMMMMMMMMMMMMMMM" /* 0f 10 */
    "bbbbxxxxMMMMMMMM" /* 0f 20: mov of control registers, never of memory */
    "......x.pxpxxxxx" /* 0f 30 */
    "MMMMMMMMMMMMMMMM" /* 0f 40 */
    "MMMMMMMMMMMMMMMM" /* 0f 50 */
    "MMMMMMMMMMMMMMMM" /* 0f 60 */
    "BBBBMMM.MMMMMMMM" /* 0f 70 */
    "JJJJJJJJJJJJJJJJ" /* 0f 80 */
    "MMMMMMMMMMMMMMMM" /* 0f 90 */
    "...MBMMM...MBMMM" /* 0f a0 */
    "MMMMMMMMMMBMMMMM" /* 0f b0 */
    "MMBMBBBM........" /* 0f c0 */
    "MMMMMMMMMMMMMMMM" /* 0f d0 */
    "MMMMMMMMMMMMMMMM" /* 0f e0 */
    "MMMMMMMMMMMMMMMM" /* 0f f0 */;
/* clang-format on */

struct decoder {
    const unsigned char *code;
    unsigned at, end;
    unsigned char opcode, narrow, short_address, wide; /* 66, 67, REX.W */
};

/* The next byte, or 0 past the end: arch_decode compares the sum of the lengths with the end. */
static unsigned char next(struct decoder *d)
{
    unsigned char byte = d->at < d->end ? d->code[d->at] : 0;
    d->at++;
    return byte;
}

/* Reads legacy prefixes and REX, which counts only right before the opcode; leaves the first byte
 * that is neither in d->opcode. */
static void read_prefixes(struct decoder *d)
{
    for (;;) {
        d->opcode = next(d);
        if ((d->opcode & 0xf0) == 0x40) {
            d->wide = d->opcode >> 3 & 1;
            continue;
        }
        switch (d->opcode) {
        case 0x66:
            d->narrow = 1;
            break;
        case 0x67:
            d->short_address = 1;
            break;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
        case 0xf0:
        case 0xf2:
        case 0xf3:
            break;
        default:
            return;
        }
        d->wide = 0;
        if (d->at >= d->end)
            return;
    }
}

/* The operands of an opcode, as in the tables: map 2 has ModRM alone, 3 ModRM and a byte. */
static char form_of(unsigned map, unsigned char opcode)
{
    switch (map) {
    case 0:
    case 4: /* 4: EVEX forms of the first map's instructions */
        return one_byte[opcode];
    case 1:
        return two_bytes[opcode];
    case 2:
    case 5:
    case 6:
    case 9: /* 5 and 6: half precision; 9: AMD's XOP */
        return 'M';
    case 3:
    case 8:
        return 'B';
    case 10:
        return 'Z';
    default:
        return 'x';
    }
}

/* VEX, EVEX and XOP hold prefixes, REX and map in `payload` bytes. No such instruction branches. */
static char read_vector_prefix(struct decoder *d, unsigned payload, unsigned map)
{
    while (payload--)
        next(d);
    d->opcode = next(d);
    char form = form_of(map, d->opcode);
    return form == 'J' || form == 'j' || form == 'p' ? 'x' : form;
}

/* Reads the opcode: what follows it. */
static char read_opcode(struct decoder *d)
{
    unsigned char second = d->at < d->end ? d->code[d->at] : 0;
    switch (d->opcode) {
    case 0x0f:
        d->opcode = next(d);
        if (d->opcode != 0x38 && d->opcode != 0x3a)
            return two_bytes[d->opcode];
        next(d);
        return d->opcode == 0x38 ? 'M' : 'B';
    case 0xc5:
        return read_vector_prefix(d, 1, 1);
    case 0xc4:
        return read_vector_prefix(d, 2, second & 0x1f);
    case 0x62:
        return read_vector_prefix(d, 3, second & 7);
    case 0x8f: /* pop, or XOP from map 8 on */
        return (second & 0x1f) >= 8 ? read_vector_prefix(d, 2, second & 0x1f) : 'M';
    case 0xd5: /* REX2: its bits, and which of the first two maps */
        next(d);
        d->wide = second >> 3 & 1;
        d->opcode = next(d);
        return second & 0x80 ? two_bytes[d->opcode] : one_byte[d->opcode];
    default:
        return one_byte[d->opcode];
    }
}

/* ModRM with SIB and displacement: the group's number in it. */
static unsigned read_modrm(struct decoder *d)
{
    unsigned char modrm = next(d), mod = modrm >> 6, rm = modrm & 7, base = rm;
    if (mod == 3)
        return modrm >> 3 & 7;
    if (rm == 4)
        base = next(d) & 7;
    d->at += mod == 1 ? 1 : mod == 2 || base == 5 ? 4 : 0;
    return modrm >> 3 & 7;
}

static unsigned immediate_bytes(const struct decoder *d, char form, unsigned group)
{
    unsigned word = d->narrow && !d->wide ? 2 : 4;
    switch (form) {
    case 'b':
    case 'B':
    case 'j':
        return 1;
    case 'z':
    case 'Z':
        return word;
    case 'w':
        return 2;
    case 'e':
        return 3;
    case 'v':
        return d->wide ? 8 : word;
    case 'o':
        return d->short_address ? 4 : 8;
    case 'J': /* 66 is ignored, or the instruction is useless in 64-bit mode */
        return 4;
    case 'g':
        return group < 2;
    case 'G':
        return group < 2 ? word : 0;
    default:
        return 0;
    }
}

static int32_t read_distance(const unsigned char *at, unsigned bytes)
{
    if (bytes == 1)
        return (signed char)at[0];
    if (bytes == 2)
        return (int16_t)(at[0] | at[1] << 8);
    return (int32_t)scan_load_4(at);
}

int arch_decode(const unsigned char *code, size_t available, struct arch_instruction *instruction)
{
    unsigned end =
        available < ARCH_INSTRUCTION_BYTES ? (unsigned)available : ARCH_INSTRUCTION_BYTES;
    struct decoder d = {.code = code, .end = end};
    unsigned group = 0;
    read_prefixes(&d);
    char form = read_opcode(&d);
    if (form == 'x' || form == 'p')
        return -1;
    /* xbegin: c7 f8 and the distance of where an abort goes. */
    unsigned is_begin = form == 'Z' && d.opcode == 0xc7 && d.at < end && code[d.at] == 0xf8;
    if (form == 'M' || form == 'B' || form == 'Z' || form == 'g' || form == 'G')
        group = read_modrm(&d);
    unsigned bytes = immediate_bytes(&d, form, group);
    if (d.at + bytes > end)
        return -1;
    instruction->length = (unsigned char)(d.at + bytes);
    instruction->branch = form == 'j' || form == 'J' || is_begin;
    instruction->distance = instruction->branch ? read_distance(code + d.at, bytes) : 0;
    return 0;
}
