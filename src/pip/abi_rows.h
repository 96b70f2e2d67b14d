/* src/pip/abi_rows.h: every field of what crosses programs: structure, field, offset, bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_PIP_ABI_ROWS_H
#define ONESPACE_PIP_ABI_ROWS_H

/* clang-format off */
#define STATE_ROWS(ROW) \
    ROW(struct state, header, 0, 24) \
    ROW(struct state, ntasks, 24, 4) \
    ROW(struct state, mode, 28, 4) \
    ROW(struct state, quiet, 32, 4) \
    ROW(struct state, root_export, 40, 8) \
    ROW(struct state, changes, 48, 4) \
    ROW(struct state, universal, 52, 32) \
    ROW(struct record, state, 0, 4) \
    ROW(struct record, id, 4, 4) \
    ROW(struct record, export, 8, 8) \
    ROW(struct record, aux, 16, 8) \
    ROW(struct record, returned, 24, 8) \
    ROW(struct record, pipid, 32, 4) \
    ROW(struct record, held, 36, 4) \
    ROW(struct record, after, 40, 8) \
    ROW(struct record, hookarg, 48, 8) \
    ROW(struct record, any_end, 56, 4)
/* clang-format on */

#endif
