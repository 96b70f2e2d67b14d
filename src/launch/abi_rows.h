/* src/launch/abi_rows.h: every field of what crosses programs: structure, field, offset, bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_LAUNCH_ABI_ROWS_H
#define ONESPACE_LAUNCH_ABI_ROWS_H

/* clang-format off */
#define PROTOCOL_ROWS(ROW) \
    ROW(struct protocol_self_report, timer_slack, 0, 8) \
    ROW(struct protocol_self_report, personality, 8, 4) \
    ROW(struct protocol_self_report, securebits, 12, 4) \
    ROW(struct protocol_self_report, session_keyring, 16, 4) \
    ROW(struct protocol_self_report, speculation, 20, 12) \
    ROW(struct protocol_self_report, mdwe, 32, 4) \
    ROW(struct protocol_greeting, header, 0, 24) \
    ROW(struct protocol_greeting, file, 24, 256) \
    ROW(struct protocol_greeting, self_report, 280, 40) \
    ROW(struct protocol_request, header, 0, 24) \
    ROW(struct protocol_request, flags, 24, 4) \
    ROW(struct protocol_request, argc, 28, 4) \
    ROW(struct protocol_request, envc, 32, 4) \
    ROW(struct protocol_request, text_size, 36, 4) \
    ROW(struct protocol_request, fd_count, 40, 4) \
    ROW(struct protocol_request, number, 44, 4) \
    ROW(struct protocol_request, ntasks, 48, 4) \
    ROW(struct protocol_request, has_directory, 52, 4) \
    ROW(struct protocol_request, absence, 56, 4) \
    ROW(struct protocol_request, launch, 64, 8) \
    ROW(struct protocol_request, stack_size, 72, 8) \
    ROW(struct protocol_request, policy_mode, 80, 4) \
    ROW(struct protocol_request, is_hydra, 84, 4) \
    ROW(struct protocol_request, policy_nodes, 88, 128) \
    ROW(struct protocol_request, signal_mask, 216, 8) \
    ROW(struct protocol_request, ignored, 224, 8) \
    ROW(struct protocol_request, self_report, 232, 40) \
    ROW(struct protocol_signal, number, 0, 4) \
    ROW(struct protocol_signal, is_queued, 4, 4) \
    ROW(struct protocol_signal, value, 8, 8) \
    ROW(struct protocol_reply, kind, 0, 4) \
    ROW(struct protocol_reply, error, 4, 4) \
    ROW(struct protocol_reply, status, 8, 72) \
    ROW(struct protocol_reply, total, 80, 64) \
    ROW(struct protocol_reply, message, 144, 1024)
/* clang-format on */

#endif
