/* src/arch/x86_64/code/patch.c: finds system calls and cpuid instructions in machine code and turns
 * them into jumps.
 *
 * Compilers and hand-written assembly load the number right before the instruction:
 *     b8 NN NN 00 00          mov $nr, %eax
 *     4c 89 e7                mov %r12, %rdi     (perhaps: moves between registers and into others)
 *     0f 05                   syscall
 * or, in Go, with the long form of the first move (48 c7 c0 NN NN 00 00). A five-byte relative jump
 * takes the place of the first instruction; what stands in between goes before the jump. A branch
 * to the later instructions would find another number in the register and half a jump in its way:
 * such sequences are left alone (reject_unsafe.c). */
#include "arch/code/patch.h"

#include <asm/unistd.h>

#include "arch/code/decode.h"

static int is_syscall(const unsigned char *at)
{
    return at[0] == 0x0f && at[1] == 0x05;
}

static int are_bytes(const unsigned char *at, const unsigned char *bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (at[i] != bytes[i])
            return 0;
    return 1;
}

/* glibc's _exit loads its numbers first: mov $231 (exit_group), %esi; mov $60 (exit), %edx. Since
 * 2.41 it is mov $231, %edx, and a jump to mov %edx, %eax; syscall. It never returns, so what loads
 * them may become a jump. */
static int match_exit(const unsigned char *at, size_t available, struct arch_patch_site *site)
{
    static const unsigned char both[] = {0xbe, 231, 0, 0, 0, 0xba, 60, 0, 0, 0};
    static const unsigned char one[] = {0xba, 231, 0, 0, 0, 0xeb};
    static const unsigned char call[] = {0x89, 0xd0, 0x0f, 0x05};
    unsigned length = 0;
    if (are_bytes(at, both, sizeof(both)))
        length = sizeof(both);
    else if (are_bytes(at, one, sizeof(one)) && at[6] + 11u <= available &&
             are_bytes(at + 7 + at[6], call, sizeof(call)))
        length = 5;
    *site = (struct arch_patch_site){.nr = __NR_exit_group, .length = (unsigned char)length};
    return length != 0;
}

/* lea distance(%rip), %reg, of any register but rax: the distance is its last four bytes. */
enum { LEA_BYTES = 7 };
static int is_relative_lea(const unsigned char *at)
{
    return (at[0] == 0x48 || at[0] == 0x4c) && at[1] == 0x8d && (at[2] & 0xc7) == 0x05 &&
           ((at[2] & 0x38) || (at[0] & 4));
}

/* The length of an instruction that may run before the number is loaded instead of after it: moves
 * between registers, their xor, a constant loaded or combined, an address, and nothing of rax. 0:
 * another one. Three bytes from `at` are readable. */
static unsigned movable_bytes(const unsigned char *at)
{
    if (is_relative_lea(at))
        return LEA_BYTES;
    unsigned rex = (at[0] & 0xf0) == 0x40 ? at[0] : 0, prefix = rex != 0;
    unsigned char opcode = at[prefix], modrm = at[prefix + 1];
    if ((opcode & 0xf8) == 0xb8) /* mov $constant, %reg: of four bytes unless REX.W */
        return (rex & 8) || !((opcode & 7) | (rex & 1)) ? 0 : prefix + 5;
    int has_rax = modrm < 0xc0 || !((modrm & 7) | (rex & 1));
    if (opcode == 0x83) /* add, or, and... $constant, %reg */
        return has_rax ? 0 : prefix + 3;
    has_rax |= !((modrm >> 3 & 7) | (rex & 4));
    if (opcode == 0x89 || opcode == 0x8b || opcode == 0x31 || opcode == 0x33)
        return has_rax ? 0 : prefix + 2;
    return 0;
}

/* musl's last act on a detached thread's stack is to unmap it; then come xor %rdi, %rdi and exit.
 * It has no stack to run anything else on. At least eight bytes from `after` are readable. */
static int is_exit(const unsigned char *after)
{
    after += after[0] == 0x48;
    return after[0] == 0x31 && after[1] == 0xff && (after[2] == 0xb0 || after[2] == 0xb8) &&
           after[3] == __NR_exit;
}

/* Fifteen bytes from `at` are readable. */
static int match_call(const unsigned char *at, struct arch_patch_site *site)
{
    unsigned load = at[0] == 0xb8 ? 5 : at[0] == 0x48 && at[1] == 0xc7 && at[2] == 0xc0 ? 7 : 0;
    if (!load || at[load - 2] || at[load - 1])
        return 0;
    unsigned end = load, more;
    while (end + 3 <= ARCH_PATCH_SITE_BYTES && (more = movable_bytes(at + end)))
        end += more;
    if (end + 2 > ARCH_PATCH_SITE_BYTES || !is_syscall(at + end))
        return 0;
    site->nr = at[load - 4] | at[load - 3] << 8;
    site->displaced = (unsigned char)(end - load);
    site->length = (unsigned char)(end + 2);
    return !(site->nr == __NR_munmap && site->length == 7 && is_exit(at + site->length));
}

static int match(const unsigned char *at, size_t available, struct arch_patch_site *site)
{
    return available >= ARCH_PATCH_SITE_BYTES &&
           (match_call(at, site) || match_exit(at, available, site));
}

size_t arch_next_patch_site(const unsigned char *code, size_t size, size_t from,
                            struct arch_patch_site *site)
{
    /* The long form is found by its second byte, which is rarer. */
    for (size_t at = from; at + ARCH_PATCH_SITE_BYTES <= size + 1; at += 8) {
        uint64_t word = scan_load(code + at);
        uint64_t marks = scan_equal(word, 0xb8) | scan_equal(word, 0xba) | scan_equal(word, 0xbe) |
                         scan_equal(word, 0xc7);
        while (marks) {
            size_t begin = at + scan_next(&marks);
            if (code[begin] == 0xc7) {
                if (begin == from)
                    continue;
                begin--;
            }
            if (match(code + begin, size - begin, site))
                return begin;
        }
    }
    return size;
}

/* Corrects what is relative to its own address in instructions that go `by` bytes down. */
static void move_down(unsigned char *lead, unsigned size, unsigned by)
{
    for (unsigned at = 0; at < size; at += movable_bytes(lead + at)) {
        if (!is_relative_lea(lead + at))
            continue;
        uint32_t distance = scan_load_4(lead + at + LEA_BYTES - 4) + by;
        __builtin_memcpy(lead + at + LEA_BYTES - 4, &distance, sizeof(distance));
    }
}

int arch_patch_syscall(uintptr_t address, const struct arch_patch_site *site, uintptr_t trampoline)
{
    volatile unsigned char *code = (volatile unsigned char *)address;
    unsigned char lead[ARCH_PATCH_SITE_BYTES] = {0};
    unsigned lead_at = site->length - 2u - site->displaced;
    for (unsigned i = 0; i < site->displaced; i++)
        lead[i] = code[lead_at + i]; /* the jump may overlap them */
    move_down(lead, site->displaced, lead_at);
    if (arch_write_jump(address + site->displaced, trampoline) != 0)
        return -1;
    for (unsigned i = 0; i < site->displaced; i++)
        code[i] = lead[i];
    return 0;
}

/* ---- cpuid ----
 *
 * Recognised, and replaced by a jump of five bytes:
 *     mov $leaf, %eax  or  mov %reg, %eax
 *     xor %ecx, %ecx   or  mov %reg, %ecx   (or neither)
 *     cpuid */

struct sequence {
    struct arch_cpuid cpuid;
    unsigned length;
};

/* mov %reg, %eax or %ecx (as `target` is 0 or 1): its length or 0. */
static unsigned match_move(const unsigned char *at, unsigned target, int16_t *source)
{
    unsigned rex = at[0] == 0x44;
    at += rex;
    if (at[0] != 0x89 || (at[1] & 0xc7) != (0xc0 | target))
        return 0;
    *source = (int16_t)((at[1] >> 3 & 7) | rex << 3);
    return 2 + rex;
}

/* At least 12 bytes from `at` are readable. */
static int match_cpuid(const unsigned char *at, struct sequence *found)
{
    struct arch_cpuid *cpuid = &found->cpuid;
    unsigned length = 5, second;
    cpuid->leaf_register = ARCH_CPUID_IMMEDIATE;
    cpuid->leaf = scan_load_4(at + 1);
    if (at[0] != 0xb8 && !(length = match_move(at, 0, &cpuid->leaf_register)))
        return 0;
    cpuid->subleaf_register = ARCH_CPUID_AS_IT_IS;
    if (at[length] == 0x31 && at[length + 1] == 0xc9) {
        cpuid->subleaf_register = ARCH_CPUID_ZERO;
        length += 2;
    } else if ((second = match_move(at + length, 1, &cpuid->subleaf_register))) {
        if (cpuid->subleaf_register == 0) /* of the leaf just loaded */
            return 0;
        length += second;
    }
    found->length = length + 2;
    return at[length] == 0x0f && at[length + 1] == 0xa2 && found->length >= 5;
}

unsigned arch_find_cpuids(const unsigned char *code, size_t size, uint32_t *offsets, unsigned most)
{
    struct arch_span spans[ARCH_CPUIDS_MAX];
    struct sequence found;
    unsigned count = 0, kept = 0;
    for (size_t at = 0; at + 16 <= size && at <= UINT32_MAX; at++) {
        if (code[at] != 0xb8 && code[at] != 0x89 && code[at] != 0x44)
            continue;
        if (count < most && count < ARCH_CPUIDS_MAX && match_cpuid(code + at, &found)) {
            spans[count++] = (struct arch_span){(uint32_t)at, (unsigned char)found.length, 0};
            at += found.length - 1; /* 44 89 .. is one move, not two */
        }
    }
    arch_reject_unsafe(code, size, spans, count);
    for (unsigned i = 0; i < count; i++)
        if (spans[i].length)
            offsets[kept++] = spans[i].at;
    return kept;
}

int arch_patch_cpuid(uintptr_t address, struct arch_cpuid *record, uintptr_t trampoline)
{
    struct sequence found;
    if (!match_cpuid((const unsigned char *)address, &found) ||
        arch_write_jump(address, trampoline) != 0)
        return -1;
    found.cpuid.resume = address + found.length;
    *record = found.cpuid;
    return 0;
}
