/* src/base/process.c: see process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>

#include "base/numbers.h"
#include "base/raw.h"
#include "base/text.h"

enum { TEXT_BYTES = 1024 };

static long read_text(int pid, char text[TEXT_BYTES])
{
    char path[32];
    text_append(numbers_write(text_append(path, "/proc/"), (uint64_t)pid, 10), "/stat");
    long fd = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (raw_failed(fd))
        return fd;
    long size = raw(__NR_read, fd, text, TEXT_BYTES - 1);
    raw(__NR_close, fd);
    if (size <= 0) /* it ended after the file was opened */
        return size == 0 ? -ESRCH : size;
    text[size] = 0;
    return 0;
}

/* The number in field `wanted`, as proc(5) counts them, given field 3 and what follows it. */
static uint64_t field(const char *text, int wanted)
{
    uint64_t value;
    for (int number = 3; number < wanted && *text; number++) {
        while (*text && *text != ' ')
            text++;
        while (*text == ' ')
            text++;
    }
    numbers_read(text, &value);
    return value;
}

long process_read(int pid, struct process_stat *stat)
{
    char text[TEXT_BYTES];
    long result = read_text(pid, text);
    if (result < 0)
        return result;
    /* The name may hold anything, brackets and blanks too: it ends at the last bracket. */
    const char *open = NULL, *close = NULL;
    for (const char *at = text; *at; at++) {
        open = !open && *at == '(' ? at : open;
        close = *at == ')' ? at : close;
    }
    if (!open || !close || close < open || close[1] != ' ')
        return -EINVAL;
    unsigned length = (unsigned)(close - open - 1);
    text_append_some(stat->name, open + 1,
                     length < sizeof(stat->name) ? length : sizeof(stat->name) - 1);
    const char *rest = close + 2;
    stat->state = *rest;
    stat->parent = (int)field(rest, 4);
    stat->flags = field(rest, 9);
    stat->user_ticks = field(rest, 14);
    stat->system_ticks = field(rest, 15);
    stat->start_ticks = field(rest, 22);
    return 0;
}
