/* src/policy/policy.h: the rules that the administrator of a machine sets for onespace, in one file
 * (man/onespace-policy.5).
 *
 * The path is fixed, so that no variable and no option of a user changes it. The rules bind this
 * program and this library: a user who brings another build of onespace is not bound. */
#ifndef ONESPACE_POLICY_POLICY_H
#define ONESPACE_POLICY_POLICY_H

#include <stddef.h>
#include <stdint.h>

/* ---- policy.c: the rules ---- */

#define POLICY_DIRECTORY "/etc/onespace"
#define POLICY_NAME      "policy.toml"
#define POLICY_FILE      POLICY_DIRECTORY "/" POLICY_NAME

enum { POLICY_WORDS_MAX = 64, POLICY_WORD_MAX_BYTES = 64, POLICY_MAX_BYTES = 65536 };

struct policy_words {
    unsigned is_given, count; /* not given: no restriction; given without a word: none is allowed */
    char words[POLICY_WORDS_MAX][POLICY_WORD_MAX_BYTES];
};

struct policy {
    unsigned exists; /* 0: the machine has no such file, and all is allowed */
    unsigned enabled, allow_root, require_guard;
    unsigned log, log_digest;
    unsigned max_tasks; /* in one space at once; 0: no limit but ONESPACE_TASKS_MAX */
    struct policy_words allow_groups, allow_differences;
};

/* Reads the machine's policy. 0, also if it has none; -EACCES: it has one that is not root's, that
 * cannot be read or is wrong; or another -errno; with a message. Then nothing may be started: a
 * rule that cannot be read may forbid it. */
int policy_read(struct policy *policy, char *message, size_t size);
/* The same for the text of a file. 0, or -EINVAL with a message that begins with the line. */
int policy_parse(const char *text, struct policy *policy, char *message, size_t size);

/* Whether the calling process may make a space: 0, or -EACCES with a message. */
int policy_check_caller(const struct policy *policy, char *message, size_t size);
/* Reads the policy, and checks the caller: 0, or -errno with a message. */
int policy_admit(struct policy *policy, char *message, size_t size);
/* Whether ONESPACE_MAY_DIFFER may name `key` (launch/identity.c). */
int policy_allows_difference(const struct policy *policy, const char *key);

/* ---- audit.c: records of the starts and ends of spaces and tasks in the system's log, where the
 * policy asks for them. Freestanding: the reaper sends them, too. ---- */

struct audit_field {
    const char *name; /* in upper case, as the journal wants it */
    const char *text; /* NULL: the number counts */
    uint64_t number;
};

/* Sends a record with these fields to systemd's journal or, where there is none, to /dev/log. If
 * the log is full and may_wait is not 0, waits for at most AUDIT_WAIT_MS, but not if it was full
 * the last time. The next record that this program sends says how many were lost. */
enum { AUDIT_WAIT_MS = 100, AUDIT_FIELDS_MAX = 8 };
void audit_send(int may_wait, const char *event, const struct audit_field *fields, unsigned count);

/* The SHA-256 of a file in hexadecimal. 0; or -errno with an empty text. */
enum { AUDIT_DIGEST_BYTES = 65 };
long audit_digest(const char *path, char digest[AUDIT_DIGEST_BYTES]);

#endif
