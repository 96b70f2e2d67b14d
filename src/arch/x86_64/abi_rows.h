/* src/arch/x86_64/abi_rows.h: every field of what crosses programs: structure, field, offset,
 * bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_ARCH_ABI_ROWS_H
#define ONESPACE_ARCH_ABI_ROWS_H

/* clang-format off */
#define ARCH_ROWS(ROW) \
    ROW(struct arch_trampoline_data, call_entry, 0, 8) \
    ROW(struct arch_trampoline_data, cpuid_entry, 8, 8) \
    ROW(struct arch_trampoline_data, self, 16, 8) \
    ROW(struct arch_trampoline_data, handlers, 24, 24) \
    ROW(struct arch_trampoline_data, calls, 48, 2560) \
    ROW(struct arch_trampoline_data, cpuids, 2608, 960) \
    ROW(struct arch_handlers, call, 0, 8) \
    ROW(struct arch_handlers, cpuid, 8, 8) \
    ROW(struct arch_handlers, fault, 16, 8) \
    ROW(struct arch_patched_syscall, self, 0, 8) \
    ROW(struct arch_patched_syscall, nr, 8, 8) \
    ROW(struct arch_patched_syscall, resume, 16, 8) \
    ROW(struct arch_patched_syscall, is_loader, 24, 8) \
    ROW(struct arch_cpuid, leaf, 0, 4) \
    ROW(struct arch_cpuid, leaf_register, 4, 2) \
    ROW(struct arch_cpuid, subleaf_register, 6, 2) \
    ROW(struct arch_cpuid, resume, 8, 8)
/* clang-format on */

#endif
