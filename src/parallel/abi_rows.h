/* src/parallel/abi_rows.h: every field of what crosses programs: structure, field, offset, bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_PARALLEL_ABI_ROWS_H
#define ONESPACE_PARALLEL_ABI_ROWS_H

/* clang-format off */
#define TEAM_ROWS(ROW) \
    ROW(struct team_block, header, 0, 24) \
    ROW(struct team_block, count, 24, 4) \
    ROW(struct team_block, first, 28, 4) \
    ROW(struct team_block, export_name, 32, 48) \
    ROW(struct team_block, workers, 80, 4) \
    ROW(struct team_block, lost, 84, 4) \
    ROW(struct team_block, arrived, 128, 4) \
    ROW(struct team_block, generation, 192, 4) \
    ROW(struct team_block, sleepers, 196, 4) \
    ROW(struct team_block, next_chunk, 256, 8) \
    ROW(struct team_block, region, 320, 72) \
    ROW(struct team_block, lock, 392, 4) \
    ROW(struct team_block, instances, 400, 4608) \
    ROW(struct team_member, id, 0, 4) \
    ROW(struct team_member, result, 4, 4) \
    ROW(struct team_member, values, 8, 8) \
    ROW(struct team_member, small, 64, 128) \
    ROW(struct team_region, order, 0, 4) \
    ROW(struct team_region, function, 8, 16) \
    ROW(struct team_region, loop, 24, 40) \
    ROW(struct team_region, argument, 64, 8) \
    ROW(struct team_loop, begin, 0, 8) \
    ROW(struct team_loop, end, 8, 8) \
    ROW(struct team_loop, schedule, 16, 8) \
    ROW(struct team_loop, part, 24, 8) \
    ROW(struct team_loop, argument, 32, 8) \
    ROW(struct team_function, object, 0, 8) \
    ROW(struct team_function, offset, 8, 8) \
    ROW(struct team_instance, name, 0, 48) \
    ROW(struct team_instance, size, 48, 8) \
    ROW(struct team_instance, owner, 56, 4) \
    ROW(struct team_instance, address, 64, 8)
/* clang-format on */

#endif
