/* src/base/proc.c: see proc.h. */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>

#include "base/raw.h"
#include "base/text.h"

char *proc_path(char *path, int pid, const char *name)
{
    char *end = text_append(path, "/proc/");
    end = pid ? text_append_number(end, (uint64_t)pid, 10) : text_append(end, "self");
    return text_append(text_append(end, "/"), name);
}

int proc_is_own(void)
{
    char text[16];
    uint64_t pid;
    long length = raw(__NR_readlinkat, AT_FDCWD, "/proc/self", text, sizeof(text) - 1);
    if (length <= 0)
        return 0;
    text[length] = 0;
    return text_read_number(text, &pid) != text && (long)pid == raw(__NR_getpid);
}

static const char *skip_field(const char *text)
{
    while (*text && *text != ' ')
        text++;
    while (*text == ' ')
        text++;
    return text;
}

/* ---- /proc/PID/stat ---- */

enum { TEXT_BYTES = 1024 };

static long read_text(int pid, const char *name, char text[TEXT_BYTES])
{
    char path[32];
    if (pid == 0) /* the parent of a process whose parent is in another PID namespace */
        return -ENOENT;
    proc_path(path, pid, name);
    long fd = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (raw_failed(fd))
        return fd;
    long size = raw(__NR_read, fd, text, TEXT_BYTES - 1);
    raw(__NR_close, fd);
    if (size <= 0) /* the process ended after the file was opened */
        return size == 0 ? -ESRCH : size;
    text[size] = 0;
    return 0;
}

/* Field number `wanted` as in proc(5); `text` begins with field 3. */
static uint64_t field(const char *text, int wanted)
{
    uint64_t value;
    for (int number = 3; number < wanted && *text; number++)
        text = skip_field(text);
    text_read_number(text, &value);
    return value;
}

long proc_read_stat(int pid, struct proc_stat *stat)
{
    char text[TEXT_BYTES];
    long result = read_text(pid, "stat", text);
    if (result < 0)
        return result;
    /* The name may contain parentheses and blanks: it ends at the last parenthesis. */
    const char *open = NULL, *close = NULL;
    for (const char *at = text; *at; at++) {
        open = !open && *at == '(' ? at : open;
        close = *at == ')' ? at : close;
    }
    if (!open || !close || close < open || close[1] != ' ')
        return -EINVAL;
    unsigned length = (unsigned)(close - open - 1);
    text_append_max(stat->name, open + 1,
                    length < sizeof(stat->name) ? length : sizeof(stat->name) - 1);
    const char *rest = close + 2;
    stat->state = *rest;
    stat->parent = (int)field(rest, 4);
    stat->flags = field(rest, 9);
    stat->user_ticks = field(rest, 14);
    stat->system_ticks = field(rest, 15);
    stat->start_ticks = field(rest, 22);
    stat->bytes = field(rest, 23);
    return 0;
}

int proc_has_ended(int pid)
{
    struct proc_stat stat;
    long result = proc_read_stat(pid, &stat);
    return result == 0 ? stat.state == 'Z' || stat.state == 'X'
                       : result == -ENOENT || result == -ESRCH;
}

long proc_real_uid(int pid)
{
    static const char name[] = "\nUid:\t";
    char text[TEXT_BYTES];
    uint64_t uid;
    if (read_text(pid, "status", text) < 0)
        return -1;
    for (const char *at = text; *at; at++) {
        unsigned same = 0;
        while (name[same] && at[same] == name[same])
            same++;
        if (!name[same])
            return text_read_number(at + same, &uid) != at + same ? (long)uid : -1;
    }
    return -1;
}

/* ---- /proc/PID/maps ---- */

/* "START-END PERMISSIONS OFFSET DEVICE INODE   NAME" */
int proc_parse_mapping(const char *line, struct proc_mapping *mapping)
{
    const char *text = text_read_hex(line, &mapping->start);
    if (text == line || *text != '-')
        return 0;
    const char *end = text + 1;
    text = text_read_hex(end, &mapping->end);
    if (text == end || *text != ' ')
        return 0;
    text_append_max(mapping->permissions, text + 1, sizeof(mapping->permissions) - 1);
    text = skip_field(text + 1);
    text_read_hex(text, &mapping->offset);
    text = skip_field(skip_field(text));
    text_read_number(text, &mapping->inode);
    mapping->name = skip_field(text);
    return 1;
}

long proc_maps_open(struct proc_maps *maps, int pid, char *buffer, size_t capacity)
{
    char path[32];
    proc_path(path, pid, "maps");
    *maps = (struct proc_maps){.buffer = buffer, .capacity = capacity};
    maps->fd = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return raw_failed(maps->fd) ? maps->fd : 0;
}

/* The next line, terminated by zero, or NULL at the end. */
static char *next_line(struct proc_maps *maps)
{
    size_t searched = maps->at;
    for (;;) {
        for (; searched < maps->size; searched++)
            if (maps->buffer[searched] == '\n') {
                char *line = maps->buffer + maps->at;
                maps->buffer[searched] = 0;
                maps->at = searched + 1;
                return line;
            }
        size_t rest = maps->size - maps->at;
        for (size_t i = 0; maps->at && i < rest; i++)
            maps->buffer[i] = maps->buffer[maps->at + i];
        maps->at = 0;
        maps->size = searched = rest;
        if (rest + 1 == maps->capacity) {
            maps->buffer[rest] = 0;
            maps->size = 0;
            maps->is_truncated = 1;
            return maps->buffer;
        }
        long got = raw(__NR_read, maps->fd, maps->buffer + rest, maps->capacity - 1 - rest);
        if (got <= 0)
            return NULL;
        maps->size += (size_t)got;
    }
}

int proc_maps_next(struct proc_maps *maps, struct proc_mapping *mapping)
{
    for (;;) {
        int is_rest = maps->is_truncated;
        maps->is_truncated = 0;
        const char *line = next_line(maps);
        if (!line)
            return 0;
        if (is_rest)
            continue;
        if (proc_parse_mapping(line, mapping))
            return 1;
    }
}

void proc_maps_close(struct proc_maps *maps)
{
    raw(__NR_close, maps->fd);
}

/* ---- Directories whose entries are numbers ---- */

long proc_each_number(const char *path, proc_number_visit *visit, void *context)
{
    _Alignas(8) char entries[2048];
    long directory = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return directory;
    long size;
    while ((size = raw(__NR_getdents64, directory, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < size;) {
            /* struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name */
            const char *name = entries + at + 19;
            uint64_t number;
            if (text_read_number(name, &number) != name)
                visit(context, (int)number, (int)directory);
            at += *(unsigned short *)(entries + at + 16);
        }
    }
    raw(__NR_close, directory);
    return size;
}
