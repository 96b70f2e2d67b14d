/* src/call/abi_rows.h: every field of what crosses programs: structure, field, offset, bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_CALL_ABI_ROWS_H
#define ONESPACE_CALL_ABI_ROWS_H

/* clang-format off */
#define CALL_ROWS(ROW) \
    ROW(struct call_table, header, 0, 24) \
    ROW(struct call_table, members, 64, 8519680) \
    ROW(struct call_member, owner, 0, 4) \
    ROW(struct call_member, gone, 4, 4) \
    ROW(struct call_member, wanted, 8, 4) \
    ROW(struct call_member, ready, 12, 4) \
    ROW(struct call_member, failed, 16, 4) \
    ROW(struct call_member, calls, 20, 4) \
    ROW(struct call_member, lenders, 64, 4096) \
    ROW(struct call_lender, state, 0, 8) \
    ROW(struct call_lender, pointer, 8, 8) \
    ROW(struct call_lender, stack, 16, 8) \
    ROW(struct call_lender, boundary, 24, 8) \
    ROW(struct call_lender, current, 32, 8) \
    ROW(struct call_lender, own, 40, 8) \
    ROW(struct call_lender, wake, 48, 4) \
    ROW(struct call_frame, arch, 0, 96) \
    ROW(struct call_frame, prev, 96, 8) \
    ROW(struct call_frame, outer, 104, 8) \
    ROW(struct call_frame, lender, 112, 8) \
    ROW(struct call_frame, caller_lender, 120, 8) \
    ROW(struct call_frame, caller_current, 128, 8) \
    ROW(struct call_frame, callee_current, 136, 8) \
    ROW(struct call_frame, caller_boundary, 144, 8) \
    ROW(struct call_frame, caller, 152, 4) \
    ROW(struct call_frame, callee, 156, 4) \
    ROW(struct call_frame, native, 160, 4) \
    ROW(struct call_frame, depth, 164, 4) \
    ROW(struct call_frame, ended_thread, 168, 4) \
    ROW(struct call_frame, detail, 172, 96) \
    ROW(struct arch_remote_call_frame, own_stack, 0, 8) \
    ROW(struct arch_remote_call_frame, own_pointer, 8, 8) \
    ROW(struct arch_remote_call_frame, pointer, 16, 8) \
    ROW(struct arch_remote_call_frame, stack, 24, 8) \
    ROW(struct arch_remote_call_frame, boundary, 32, 8) \
    ROW(struct arch_remote_call_frame, function, 40, 8) \
    ROW(struct arch_remote_call_frame, arguments, 48, 8) \
    ROW(struct arch_remote_call_frame, gone, 56, 8) \
    ROW(struct arch_remote_call_frame, result, 64, 8) \
    ROW(struct arch_remote_call_frame, leave, 72, 8) \
    ROW(struct arch_remote_call_frame, armed, 80, 4) \
    ROW(struct arch_remote_call_frame, by_call, 84, 4) \
    ROW(struct arch_remote_call_frame, floating, 88, 4) \
    ROW(struct arch_remote_call_frame, control, 92, 4)
/* clang-format on */

#endif
