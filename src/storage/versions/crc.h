/* src/storage/versions/crc.h: CRC-32C (Castagnoli), as in iSCSI (RFC 3720, B.4). */
#ifndef ONESPACE_STORAGE_VERSIONS_CRC_H
#define ONESPACE_STORAGE_VERSIONS_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of `size` bytes. */
uint32_t versions_crc(const void *data, size_t size);
/* The same without the CPU's instruction; for tests. */
uint32_t versions_crc_plain(const void *data, size_t size);

#endif
