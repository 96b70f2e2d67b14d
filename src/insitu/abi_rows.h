/* src/insitu/abi_rows.h: every field of what crosses programs: structure, field, offset, bytes.
 *
 * Written by scripts/abi-rows, asserted and hashed by those who include it. */
#ifndef ONESPACE_INSITU_ABI_ROWS_H
#define ONESPACE_INSITU_ABI_ROWS_H

/* clang-format off */
#define INSITU_ROWS(ROW) \
    ROW(struct insitu_table, header, 0, 24) \
    ROW(struct insitu_table, lock, 24, 4) \
    ROW(struct insitu_table, high, 28, 4) \
    ROW(struct insitu_table, names, 32, 4) \
    ROW(struct insitu_table, channels, 64, 17121280) \
    ROW(struct insitu_channel, state, 0, 8) \
    ROW(struct insitu_channel, policy, 8, 4) \
    ROW(struct insitu_channel, depth, 12, 4) \
    ROW(struct insitu_channel, ranks, 16, 4) \
    ROW(struct insitu_channel, consumers_wanted, 20, 4) \
    ROW(struct insitu_channel, name, 24, 64) \
    ROW(struct insitu_channel, joined, 88, 4) \
    ROW(struct insitu_channel, consumers_high, 92, 4) \
    ROW(struct insitu_channel, latest, 128, 8) \
    ROW(struct insitu_channel, complete, 136, 8) \
    ROW(struct insitu_channel, last, 144, 8) \
    ROW(struct insitu_channel, broken, 152, 4) \
    ROW(struct insitu_channel, news, 156, 8) \
    ROW(struct insitu_channel, freed, 192, 8) \
    ROW(struct insitu_channel, opened, 200, 8) \
    ROW(struct insitu_channel, skipped, 208, 8) \
    ROW(struct insitu_channel, entries, 256, 1024) \
    ROW(struct insitu_channel, rounds, 1280, 4096) \
    ROW(struct insitu_channel, rank, 5376, 131072) \
    ROW(struct insitu_channel, consumers, 136448, 131072) \
    ROW(struct insitu_entry, state, 0, 8) \
    ROW(struct insitu_entry, step, 8, 8) \
    ROW(struct insitu_entry, pending, 16, 4) \
    ROW(struct insitu_entry, wanted, 20, 4) \
    ROW(struct insitu_round, word, 0, 8) \
    ROW(struct insitu_round, step, 8, 8) \
    ROW(struct insitu_rank, owner, 0, 4) \
    ROW(struct insitu_rank, closed, 4, 4) \
    ROW(struct insitu_rank, rounds, 8, 8) \
    ROW(struct insitu_rank, published, 16, 8) \
    ROW(struct insitu_consumer, owner, 0, 4) \
    ROW(struct insitu_consumer, active, 4, 4) \
    ROW(struct insitu_consumer, holding, 8, 4) \
    ROW(struct insitu_consumer, seen, 16, 8) \
    ROW(struct insitu_bell, rings, 0, 4) \
    ROW(struct insitu_bell, wanted, 4, 4) \
    ROW(struct insitu_part, array_count, 0, 4) \
    ROW(struct insitu_part, attribute_count, 4, 4) \
    ROW(struct insitu_part, copy, 8, 8) \
    ROW(struct insitu_part, copy_bytes, 16, 8) \
    ROW(struct insitu_part, unused, 24, 40) \
    ROW(struct insitu_part, arrays, 64, 16384) \
    ROW(struct insitu_part, attributes, 16448, 8192) \
    ROW(struct insitu_array, name, 0, 64) \
    ROW(struct insitu_array, address, 64, 8) \
    ROW(struct insitu_array, bytes, 72, 8) \
    ROW(struct insitu_array, type, 80, 4) \
    ROW(struct insitu_array, dimensions, 84, 4) \
    ROW(struct insitu_array, source, 88, 8) \
    ROW(struct insitu_array, along, 96, 128) \
    ROW(struct insitu_array, units, 224, 32) \
    ROW(struct insitu_dimension, shape, 0, 8) \
    ROW(struct insitu_dimension, stride, 8, 8) \
    ROW(struct insitu_dimension, global_shape, 16, 8) \
    ROW(struct insitu_dimension, offset, 24, 8) \
    ROW(struct insitu_attribute, name, 0, 64) \
    ROW(struct insitu_attribute, value, 64, 128) \
    ROW(struct insitu_attribute, type, 192, 4) \
    ROW(struct insitu_attribute, unused, 196, 60)
/* clang-format on */

#endif
