/* src/policy/audit.h: records of the starts and ends of spaces and tasks in the system's log, where
 * the machine's policy asks for them. Freestanding: the reaper sends them, too. */
#ifndef ONESPACE_POLICY_AUDIT_H
#define ONESPACE_POLICY_AUDIT_H

#include <stdint.h>

struct audit_field {
    const char *name; /* in upper case, as the journal wants it */
    const char *text; /* NULL: the number counts */
    uint64_t number;
};

/* A socket that the reaper sends by. It shares the root's table of descriptors, in which it must
 * not open anything: the program may be about to use the lowest number. */
struct audit_socket {
    int32_t fd; /* -1: there is none */
    uint64_t inode;
};

/* By the root, before there is a reaper: opens the socket under a high number. */
void audit_open(struct audit_socket *by);
/* Closes it, unless the program has. */
void audit_close(struct audit_socket *by);

/* Sends a record with these fields to systemd's journal or, where there is none, to /dev/log. With
 * by: without waiting, and only if the descriptor is still that socket. NULL: by a socket of the
 * call's own, waiting for at most AUDIT_WAIT_MS if the log is full, but not if it was full the last
 * time. The next record that this program sends says how many were lost. */
enum { AUDIT_WAIT_MS = 100, AUDIT_FIELDS_MAX = 8 };
void audit_send(const struct audit_socket *by, const char *event, const struct audit_field *fields,
                unsigned count);

/* The SHA-256 of a file in hexadecimal. 0; or -errno with an empty text. */
enum { AUDIT_DIGEST_BYTES = 65 };
long audit_digest(const char *path, char digest[AUDIT_DIGEST_BYTES]);

#endif
