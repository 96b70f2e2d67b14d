/* src/arch/aarch64/abi_rows.h: every field of what crosses programs: structure, field, offset,
 * bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_ARCH_ABI_ROWS_H
#define ONESPACE_ARCH_ABI_ROWS_H

/* clang-format off */
#define ARCH_ROWS(ROW) \
    ROW(struct arch_trampoline_data, call_entry, 0, 8) \
    ROW(struct arch_trampoline_data, self, 8, 8) \
    ROW(struct arch_trampoline_data, handlers, 16, 16) \
    ROW(struct arch_trampoline_data, calls, 32, 3200) \
    ROW(struct arch_handlers, call, 0, 8) \
    ROW(struct arch_handlers, fault, 8, 8) \
    ROW(struct arch_patched_syscall, self, 0, 8) \
    ROW(struct arch_patched_syscall, nr, 8, 8) \
    ROW(struct arch_patched_syscall, resume, 16, 8) \
    ROW(struct arch_patched_syscall, is_loader, 24, 8) \
    ROW(struct arch_patched_syscall, scratch, 32, 8)
/* clang-format on */

#endif
