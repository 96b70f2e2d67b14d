/* src/policy/audit.c: sends records to the system's log.
 *
 * The journal's own protocol has a line NAME=value for each field, and the kernel tells it the
 * sender's user, PID and login. The older protocol has one line of text. Values come from names of
 * files, so control characters are replaced in both. Freestanding. */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/raw.h"
#include "base/text.h"

enum { VALUE_MAX_BYTES = 256, READ_BYTES = 8192 };

/* authpriv.info: for those who may read what users do, and numbered as in RFC 3164. */
#define FACILITY    "10"
#define PRIORITY    "6"
#define SYSLOG_HEAD "<86>onespace["

static const struct sockaddr_un journal = {AF_UNIX, "/run/systemd/journal/socket"};
static const struct sockaddr_un log_device = {AF_UNIX, "/dev/log"};

/* Records that this copy of the code lost since one arrived. By threads of the program and, in the
 * root's copy, by the reaper; relaxed, a count alone. */
static _Atomic uint32_t lost_records;

static char *append_value(char *to, const struct audit_field *field)
{
    if (!field->text)
        return text_append_number(to, field->number, 10);
    for (unsigned i = 0; i < VALUE_MAX_BYTES && field->text[i]; i++)
        *to++ = text_is_control(field->text[i]) ? '?' : field->text[i];
    *to = 0;
    return to;
}

static char *append_lower(char *to, const char *text)
{
    for (; *text; text++)
        *to++ = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
    *to = 0;
    return to;
}

/* EVENT field=value field=value …: the message of both protocols. */
static char *append_message(char *to, const char *event, const struct audit_field *fields,
                            unsigned count, uint32_t missing)
{
    to = text_append(to, event);
    for (unsigned i = 0; i < count; i++) {
        to = append_lower(text_append(to, " "), fields[i].name);
        to = append_value(text_append(to, "="), &fields[i]);
    }
    return missing ? text_append_number(text_append(to, " lost="), missing, 10) : to;
}

static char *append_journal(char *to, const char *event, const struct audit_field *fields,
                            unsigned count, uint32_t missing)
{
    to = text_append(to, "SYSLOG_IDENTIFIER=onespace\nSYSLOG_FACILITY=" FACILITY
                         "\nPRIORITY=" PRIORITY "\nONESPACE_EVENT=");
    to = text_append(to, event);
    for (unsigned i = 0; i < count; i++) {
        to = text_append(text_append(to, "\nONESPACE_"), fields[i].name);
        to = append_value(text_append(to, "="), &fields[i]);
    }
    to = append_message(text_append(to, "\nMESSAGE="), event, fields, count, missing);
    return text_append(to, "\n");
}

static char *append_syslog(char *to, const char *event, const struct audit_field *fields,
                           unsigned count, uint32_t missing)
{
    to = text_append_number(text_append(to, SYSLOG_HEAD), (uint64_t)raw(__NR_getpid), 10);
    return append_message(text_append(to, "]: "), event, fields, count, missing);
}

static long send_to(long fd, const struct sockaddr_un *log, const char *text, size_t length)
{
    return raw(__NR_sendto, fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL, log, sizeof(*log));
}

/* A socket that is connected becomes writable when the log reads. */
static void wait_for_log(long fd, const struct sockaddr_un *log)
{
    struct pollfd writable = {(int)fd, POLLOUT, 0};
    struct timespec limit = {0, AUDIT_WAIT_MS * 1000000l};
    if (raw(__NR_connect, fd, log, sizeof(*log)) == 0)
        raw(__NR_ppoll, &writable, 1, &limit, NULL, 0);
}

/* The number of bytes sent, or -errno: -ENOENT or -ECONNREFUSED if no log reads there. */
static long deliver(const struct sockaddr_un *log, const char *text, size_t length, int may_wait)
{
    long fd = raw(__NR_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    long result = send_to(fd, log, text, length);
    if (result == -EAGAIN && may_wait) {
        wait_for_log(fd, log);
        result = send_to(fd, log, text, length);
    }
    raw(__NR_close, fd);
    return result;
}

void audit_send(int may_wait, const char *event, const struct audit_field *fields, unsigned count)
{
    char text[2 * (AUDIT_FIELDS_MAX * (VALUE_MAX_BYTES + 32) + 128)];
    uint32_t missing = atomic_exchange_explicit(&lost_records, 0, memory_order_relaxed);
    char *end = append_journal(text, event, fields, count, missing);
    long result = deliver(&journal, text, (size_t)(end - text), may_wait && !missing);
    if (result == -ENOENT || result == -ECONNREFUSED) {
        end = append_syslog(text, event, fields, count, missing);
        result = deliver(&log_device, text, (size_t)(end - text), may_wait && !missing);
    }
    if (result < 0)
        atomic_fetch_add_explicit(&lost_records, missing + 1, memory_order_relaxed);
}

/* ---- Digests: SHA-256, FIPS 180-4, sections 4 to 6 ---- */

enum { BLOCK_BYTES = 64, WORDS = 8, ROUNDS = 64 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value >> bits | value << (32 - bits);
}

static void add_block(uint32_t hash[WORDS], const unsigned char *block)
{
    uint32_t w[ROUNDS], v[WORDS];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < ROUNDS; i++)
        w[i] = (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10) + w[i - 7] +
               (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 16];
    for (unsigned i = 0; i < WORDS; i++)
        v[i] = hash[i];
    for (unsigned i = 0; i < ROUNDS; i++) { /* v: a to h of the standard, w: W, t1 and t2: T */
        uint32_t t1 = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
                      ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_constants[i] + w[i];
        uint32_t t2 = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) +
                      ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        for (unsigned k = WORDS - 1; k > 0; k--)
            v[k] = v[k - 1];
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (unsigned i = 0; i < WORDS; i++)
        hash[i] += v[i];
}

/* Hashes the file's last bytes, fewer than a block, with the padding and the size of all. */
static void add_end(uint32_t hash[WORDS], const unsigned char *rest, size_t count, uint64_t size)
{
    unsigned char end[2 * BLOCK_BYTES];
    size_t blocks = count + 1 + sizeof(size) > BLOCK_BYTES ? 2 : 1, bytes = blocks * BLOCK_BYTES;
    for (size_t i = 0; i < bytes; i++)
        end[i] = i < count ? rest[i] : i == count ? 0x80 : 0;
    for (unsigned i = 0; i < sizeof(size); i++)
        end[bytes - 1 - i] = (unsigned char)(8 * size >> 8 * i);
    for (size_t i = 0; i < blocks; i++)
        add_block(hash, end + i * BLOCK_BYTES);
}

long audit_digest(const char *path, char digest[AUDIT_DIGEST_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    /* The fractional parts of the square roots of the first 8 primes. */
    uint32_t hash[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char bytes[READ_BYTES];
    uint64_t size = 0;
    size_t used = 0;
    long count;
    digest[0] = 0;
    long file = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return file;
    while ((count = raw(__NR_read, file, bytes + used, sizeof(bytes) - used)) > 0) {
        size += (uint64_t)count;
        used += (size_t)count;
        if (used < sizeof(bytes))
            continue;
        for (size_t at = 0; at < sizeof(bytes); at += BLOCK_BYTES)
            add_block(hash, bytes + at);
        used = 0;
    }
    raw(__NR_close, file);
    if (count < 0)
        return count;
    size_t whole = used / BLOCK_BYTES * BLOCK_BYTES;
    for (size_t at = 0; at < whole; at += BLOCK_BYTES)
        add_block(hash, bytes + at);
    add_end(hash, bytes + whole, used - whole, size);
    for (unsigned i = 0; i < AUDIT_DIGEST_BYTES - 1; i++)
        digest[i] = digits[hash[i / 8] >> (28 - 4 * (i % 8)) & 15];
    digest[AUDIT_DIGEST_BYTES - 1] = 0;
    return 0;
}
