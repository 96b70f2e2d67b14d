/* src/policy/policy.c: reads and applies the machine's policy.
 *
 * The file is a subset of TOML: lines KEY = VALUE, where the value is true, false, a whole number
 * or an array of strings without escapes; and comments. Everything else is an error, because a
 * mistyped rule that was skipped would allow what the administrator meant to forbid. */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onespace.h"

/* ---- The text ---- */

enum value_type { BOOLEAN, TASKS, WORDS };

static const struct key {
    const char *name;
    enum value_type type;
    size_t offset;
} keys[] = {
    {"enabled", BOOLEAN, offsetof(struct policy, enabled)},
    {"allow_root", BOOLEAN, offsetof(struct policy, allow_root)},
    {"require_guard", BOOLEAN, offsetof(struct policy, require_guard)},
    {"log", BOOLEAN, offsetof(struct policy, log)},
    {"log_digest", BOOLEAN, offsetof(struct policy, log_digest)},
    {"max_tasks", TASKS, offsetof(struct policy, max_tasks)},
    {"allow_groups", WORDS, offsetof(struct policy, allow_groups)},
    {"allow_differences", WORDS, offsetof(struct policy, allow_differences)},
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

struct reader {
    const char *at;
    unsigned line;
    char *message;
    size_t size;
};

static int parse_error(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int parse_error(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    int used = snprintf(reader->message, reader->size, "line %u: ", reader->line);
    va_start(arguments, format);
    if (used > 0 && (size_t)used < reader->size)
        vsnprintf(reader->message + used, reader->size - (size_t)used, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* Skips blanks and a comment, and with `lines` the ends of lines, too. */
static void skip_space(struct reader *reader, int lines)
{
    for (;;) {
        reader->at += strspn(reader->at, " \t");
        if (*reader->at == '#')
            reader->at += strcspn(reader->at, "\n");
        if (reader->at[0] == '\r' && reader->at[1] == '\n')
            reader->at++;
        if (!lines || *reader->at != '\n')
            return;
        reader->at++;
        reader->line++;
    }
}

/* The length of the word at `at`: a key, a number, true or false. */
static size_t word_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
}

static int is_word(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

static int read_boolean(struct reader *reader, const char *name, unsigned *value)
{
    size_t length = word_length(reader->at);
    *value = is_word(reader->at, length, "true");
    if (!*value && !is_word(reader->at, length, "false"))
        return parse_error(reader, "%s is true or false", name);
    reader->at += length;
    return 0;
}

static int read_tasks(struct reader *reader, const char *name, unsigned *value)
{
    size_t length = word_length(reader->at), digits = strspn(reader->at, "0123456789");
    unsigned long number = strtoul(reader->at, NULL, 10);
    if (!digits || digits != length || number < 1 || number > ONESPACE_TASKS_MAX)
        return parse_error(reader, "%s is a number from 1 to %d", name, ONESPACE_TASKS_MAX);
    *value = (unsigned)number;
    reader->at += length;
    return 0;
}

/* A string in either kind of quotes. Words need no escapes, and cannot have what a terminal would
 * interpret. */
static int read_string(struct reader *reader, const char *name, struct policy_words *words)
{
    char quote = *reader->at;
    const char *from = reader->at + 1;
    size_t length = 0;
    if (!quote || !strchr("\"'", quote))
        return parse_error(reader, "%s is an array of strings, such as [\"one\", \"two\"]", name);
    while (from[length] != quote) {
        if ((unsigned char)from[length] < ' ' || from[length] == 0x7f || from[length] == '\\')
            return parse_error(
                reader, "a string of %s has no end, or a control character or \\ in it", name);
        length++;
    }
    if (length == 0 || length >= POLICY_WORD_MAX_BYTES)
        return parse_error(reader, "a string of %s has from 1 to %d bytes", name,
                           POLICY_WORD_MAX_BYTES - 1);
    if (words->count == POLICY_WORDS_MAX)
        return parse_error(reader, "%s has more than %d strings", name, POLICY_WORDS_MAX);
    memcpy(words->words[words->count], from, length);
    words->words[words->count++][length] = 0;
    reader->at = from + length + 1;
    return 0;
}

static int read_words(struct reader *reader, const char *name, struct policy_words *words)
{
    int result = 0;
    words->is_given = 1;
    if (*reader->at != '[')
        return parse_error(reader, "%s is an array of strings, such as [\"one\", \"two\"]", name);
    reader->at++;
    skip_space(reader, 1);
    while (result == 0 && *reader->at != ']') {
        result = read_string(reader, name, words);
        skip_space(reader, 1);
        if (result == 0 && *reader->at == ',') {
            reader->at++;
            skip_space(reader, 1);
        } else if (result == 0 && *reader->at != ']') {
            result = parse_error(reader, "a comma or ] is missing after a string of %s", name);
        }
    }
    if (result == 0)
        reader->at++;
    return result;
}

/* One line KEY = VALUE. given: a bit for each key that an earlier line had. */
static int read_rule(struct reader *reader, struct policy *policy, unsigned *given)
{
    size_t length = word_length(reader->at);
    unsigned index = 0;
    int result;
    while (index < KEYS && !is_word(reader->at, length, keys[index].name))
        index++;
    if (index == KEYS) {
        char known[256] = "";
        for (size_t i = 0; i < KEYS; i++)
            snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                     keys[i].name);
        return length ? parse_error(reader, "%.*s is not a rule; there are %s",
                                    length < POLICY_WORD_MAX_BYTES ? (int)length
                                                                   : POLICY_WORD_MAX_BYTES,
                                    reader->at, known)
                      : parse_error(reader, "not RULE = VALUE; rules are %s", known);
    }
    const char *name = keys[index].name;
    void *value = (char *)policy + keys[index].offset;
    if (*given & 1u << index)
        return parse_error(reader, "%s is there twice", name);
    *given |= 1u << index;
    reader->at += length;
    skip_space(reader, 0);
    if (*reader->at != '=')
        return parse_error(reader, "no = after %s", name);
    reader->at++;
    skip_space(reader, 0);
    result = keys[index].type == BOOLEAN ? read_boolean(reader, name, value)
             : keys[index].type == TASKS ? read_tasks(reader, name, value)
                                         : read_words(reader, name, value);
    if (result < 0)
        return result;
    skip_space(reader, 0);
    if (*reader->at && *reader->at != '\n')
        return parse_error(reader, "more text after the value of %s", name);
    return 0;
}

static void allow_all(struct policy *policy)
{
    memset(policy, 0, sizeof(*policy));
    policy->enabled = policy->allow_root = 1;
}

int policy_parse(const char *text, struct policy *policy, char *message, size_t size)
{
    struct reader reader = {text, 1, message, size};
    unsigned given = 0;
    int result = 0;
    allow_all(policy);
    policy->exists = 1;
    for (skip_space(&reader, 1); result == 0 && *reader.at; skip_space(&reader, 1))
        result = read_rule(&reader, policy, &given);
    return result;
}

/* ---- The file ---- */

/* A user namespace that does not map root shows its files as the overflow user's. */
enum { OVERFLOW_ID = 65534 };

static int only_root_may_change(const struct stat *file)
{
    return (file->st_uid == 0 || (file->st_uid == OVERFLOW_ID && geteuid() != OVERFLOW_ID)) &&
           !(file->st_mode & (S_IWGRP | S_IWOTH));
}

/* A descriptor; -ENOENT only if there is no such file; or another -errno with a message. */
static int open_policy(char *message, size_t size)
{
    struct stat directory = {0}, file = {0};
    int flags = O_CLOEXEC | O_NOFOLLOW;
    int parent = open(POLICY_DIRECTORY, O_PATH | O_DIRECTORY | flags);
    int fd =
        parent < 0 ? -1 : openat(parent, POLICY_NAME, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags);
    int result = fd < 0 ? -errno : fd;
    if (fd >= 0 && (fstat(parent, &directory) != 0 || fstat(fd, &file) != 0))
        result = -errno;
    else if (fd >= 0 && (!S_ISREG(file.st_mode) || !only_root_may_change(&file) ||
                         !only_root_may_change(&directory)))
        result = -EACCES;
    if (parent >= 0)
        close(parent);
    if (result < 0 && fd >= 0)
        close(fd);
    if (result == -EMFILE || result == -ENFILE || result == -ENOMEM) {
        snprintf(message, size, "%s cannot be opened: %s", POLICY_FILE, strerror(-result));
    } else if (result < 0 && result != -ENOENT) {
        snprintf(message, size,
                 "%s (%s): let the administrator make it a regular file of root's in a directory "
                 "of root's, no links, readable for all and writable for root alone",
                 POLICY_FILE, strerror(-result));
        result = -EACCES;
    }
    return result;
}

/* The text of the file, to be freed, or NULL with errno. A zero byte, behind which rules would be
 * overlooked, becomes a byte that no rule has. */
static char *read_text(int fd)
{
    ssize_t length = 0, got;
    char *text = malloc(POLICY_MAX_BYTES + 1);
    if (!text)
        return NULL;
    do {
        got = read(fd, text + length, (size_t)(POLICY_MAX_BYTES - length));
        length += got > 0 ? got : 0;
    } while (got > 0 && length < POLICY_MAX_BYTES);
    if (got != 0) {
        int error = got < 0 ? errno : EFBIG;
        free(text);
        errno = error;
        return NULL;
    }
    for (ssize_t i = 0; i < length; i++)
        if (!text[i])
            text[i] = 1;
    text[length] = 0;
    return text;
}

int policy_read(struct policy *policy, char *message, size_t size)
{
    char problem[384];
    allow_all(policy);
    int fd = open_policy(message, size);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    char *text = read_text(fd);
    int result = text ? policy_parse(text, policy, problem, sizeof(problem)) : -errno;
    close(fd);
    if (!text) {
        snprintf(message, size, "%s cannot be read: %s", POLICY_FILE, strerror(-result));
    } else if (result < 0) {
        snprintf(message, size, "%s, %s: nothing runs until the administrator corrects it",
                 POLICY_FILE, problem);
        result = -EACCES;
    }
    free(text);
    return result;
}

/* ---- The rules ---- */

/* Whether the caller is the machine's root: also in a container, but not as the root of a user
 * namespace that stands for an ordinary user. */
static int is_root(void)
{
    unsigned inside, outside, count;
    if (getuid() != 0 && geteuid() != 0)
        return 0;
    FILE *map = fopen("/proc/self/uid_map", "re");
    int result = !map; /* not known: yes */
    while (map && fscanf(map, "%u %u %u", &inside, &outside, &count) == 3)
        result |= inside == 0 && outside == 0;
    if (map)
        fclose(map);
    return result;
}

/* The number of a group by its name, or of one given as a number. 0 or -1. */
static int group_find(const char *name, gid_t *gid)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    *gid = (gid_t)number;
    if (*end == 0)
        return number == *gid ? 0 : -1;
    int error = ERANGE, found = 0;
    for (size_t size = 1024; error == ERANGE && size <= 16u << 20; size *= 4) {
        struct group group, *result = NULL;
        char *buffer = malloc(size);
        error = buffer ? getgrnam_r(name, &group, buffer, size, &result) : ENOMEM;
        if (error == 0 && result) {
            *gid = group.gr_gid;
            found = 1;
        }
        free(buffer);
    }
    return found ? 0 : -1;
}

/* The overflow group stands for all groups that a user namespace does not map. */
static int is_in_group(gid_t gid)
{
    if (gid == OVERFLOW_ID)
        return 0;
    int result = gid == getegid(), count = getgroups(0, NULL);
    gid_t *groups = count > 0 ? malloc((size_t)count * sizeof(*groups)) : NULL;
    count = groups ? getgroups(count, groups) : 0;
    for (int i = 0; i < count; i++)
        result |= groups[i] == gid;
    free(groups);
    return result;
}

static int is_in_allowed_group(const struct policy *policy)
{
    gid_t gid;
    for (unsigned i = 0; i < policy->allow_groups.count; i++)
        if (group_find(policy->allow_groups.words[i], &gid) == 0 && is_in_group(gid))
            return 1;
    return 0;
}

int policy_check_caller(const struct policy *policy, char *message, size_t size)
{
    if (!policy->enabled)
        snprintf(message, size,
                 "the administrator has turned onespace off on this machine (%s): start the "
                 "programs without it",
                 POLICY_FILE);
    else if (!policy->allow_root && is_root())
        snprintf(message, size,
                 "the administrator of this machine does not let root run tasks (%s): run them as "
                 "another user",
                 POLICY_FILE);
    else if (policy->allow_groups.is_given && !is_in_allowed_group(policy))
        snprintf(message, size,
                 "the administrator of this machine lets only members of certain groups run tasks "
                 "(allow_groups in %s), and you are in none of them",
                 POLICY_FILE);
    else
        return 0;
    return -EACCES;
}

int policy_admit(struct policy *policy, char *message, size_t size)
{
    int result = policy_read(policy, message, size);
    return result < 0 ? result : policy_check_caller(policy, message, size);
}

int policy_allows_difference(const struct policy *policy, const char *key)
{
    int result = !policy->allow_differences.is_given;
    for (unsigned i = 0; i < policy->allow_differences.count; i++)
        result |= strcmp(policy->allow_differences.words[i], key) == 0;
    return result;
}
