/* src/arch/x86_64/patch.c: find system calls in machine code and turn them into jumps.
 *
 * Compilers and hand-written assembly load the number right before the instruction:
 *     b8 NN NN 00 00          mov $nr, %eax
 *     4c 89 e7                mov %r12, %rdi     (perhaps: one move between registers)
 *     bf 9c ff ff ff          mov $AT_FDCWD, %edi (in an openat of ld.so, behind the move)
 *     0f 05                   syscall
 * or, in Go, with the long form of the first move (48 c7 c0 NN NN 00 00). A five-byte relative jump
 * takes the place of the first instruction; moves in between go before the jump. Nothing jumps
 * to the later instructions of such a sequence, because the number would be missing. */
#include "arch/patch.h"

#include <asm/unistd.h>

static int is_syscall(const unsigned char *at)
{
    return at[0] == 0x0f && at[1] == 0x05;
}

/* mov between two 64-bit registers: REX.W, opcode, mod 3. */
static int is_register_move(const unsigned char *at)
{
    return (at[0] & 0xf8) == 0x48 && (at[1] == 0x89 || at[1] == 0x8b) && at[2] >= 0xc0;
}

/* glibc's _exit loads both numbers first: mov $231 (exit_group), %esi; mov $60 (exit), %edx. It
 * never returns, so the whole may become one jump. */
static int match_exit(const unsigned char *at, struct arch_patch_site *site)
{
    static const unsigned char exit_bytes[] = {0xbe, 231, 0, 0, 0, 0xba, 60, 0, 0, 0};
    for (unsigned i = 0; i < sizeof(exit_bytes); i++)
        if (at[i] != exit_bytes[i])
            return 0;
    *site = (struct arch_patch_site){.nr = 231, .length = sizeof(exit_bytes)};
    return 1;
}

/* mov $AT_FDCWD, %edi */
static int is_cwd_load(const unsigned char *at)
{
    return at[0] == 0xbf && at[1] == 0x9c && at[2] == 0xff && at[3] == 0xff && at[4] == 0xff;
}

/* Up to fifteen bytes from `at` are readable. */
static int match_call(const unsigned char *at, struct arch_patch_site *site)
{
    unsigned load = at[0] == 0xb8 ? 5 : at[0] == 0x48 && at[1] == 0xc7 && at[2] == 0xc0 ? 7 : 0;
    if (!load || at[load - 2] || at[load - 1])
        return 0;
    site->nr = at[load - 4] | at[load - 3] << 8;
    site->lead = load == 5 && is_register_move(at + load) ? 3 : 0;
    if (site->nr == __NR_openat && site->lead && is_cwd_load(at + load + site->lead))
        site->lead += 5;
    site->length = (unsigned char)(load + site->lead + 2);
    return is_syscall(at + load + site->lead);
}

size_t arch_next_patch_site(const unsigned char *code, size_t size, size_t from,
                            struct arch_patch_site *site)
{
    for (size_t at = from; at + ARCH_PATCH_SITE_BYTES <= size; at++)
        if (match_call(code + at, site) || match_exit(code + at, site))
            return at;
    return size;
}

int arch_patch_call(uintptr_t address, const struct arch_patch_site *site, uintptr_t trampoline)
{
    volatile unsigned char *code = (volatile unsigned char *)address;
    unsigned char lead[ARCH_PATCH_SITE_BYTES];
    for (unsigned i = 0; i < site->lead; i++)
        lead[i] = code[5 + i]; /* the jump may overlap them */
    if (arch_write_jump(address + site->lead, trampoline) != 0)
        return -1;
    for (unsigned i = 0; i < site->lead; i++)
        code[i] = lead[i];
    return 0;
}
