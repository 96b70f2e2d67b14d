/* src/policy/policy.h: the rules that the administrator of a machine sets for onespace, in one file
 * (man/onespace-policy.5).
 *
 * The path is fixed, so that no variable and no option of a user changes it. The rules bind this
 * program and this library: a user who brings another build of onespace is not bound. */
#ifndef ONESPACE_POLICY_POLICY_H
#define ONESPACE_POLICY_POLICY_H

#include <stddef.h>

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
    unsigned log, log_digest; /* policy/audit.h */
    unsigned max_tasks;       /* in one space at once; 0: no limit but ONESPACE_TASKS_MAX */
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

#endif
