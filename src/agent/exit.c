/* src/agent/exit.c: in thread mode the end of the program must not end the process.
 *
 * The beginning of the libc's _exit becomes a jump, so that all calls of it, those from inside the
 * libc included, continue in end_thread. No other thread runs this libc yet. */
#include <errno.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "agent/agent.h"
#include "arch/code/patch.h"
#include "base/text.h"
#include "base/page.h"
#include "base/raw.h"

extern void _exit(int) WEAK;

static void end_thread(int status)
{
    agent_space->operations.thread_exit(agent_self, status);
}

/* Maps the changed code from a file in memory: what was written to in place may not be executed
 * under PR_SET_MDWE, for the process or a member, and under some rules of security modules. 0 or
 * -errno. */
static long map_copy(uintptr_t page, size_t size)
{
    struct rlimit limit;
    /* Writing beyond the limit would raise SIGXFSZ. */
    if (raw(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || limit.rlim_cur < size)
        return -EFBIG;
    long fd = raw(__NR_memfd_create, "onespace-exit", MFD_CLOEXEC);
    if (fd < 0)
        return fd;
    long result = raw(__NR_write, fd, page, size) == (long)size ? 0 : -EIO;
    if (result == 0)
        result = raw(__NR_mmap, page, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
    raw(__NR_close, fd);
    return raw_failed(result) ? result : 0;
}

static int divert(uintptr_t at)
{
    uintptr_t page = page_floor(at);
    size_t size = page_ceiling(at + ARCH_JUMP_BYTES) - page;
    if (!at || raw(__NR_mprotect, page, size, PROT_READ | PROT_WRITE) != 0)
        return -1;
    int failed = arch_write_jump(at, (uintptr_t)end_thread);
    if (raw(__NR_mprotect, page, size, PROT_READ | PROT_EXEC) != 0 && map_copy(page, size) != 0)
        return -1;
    return failed;
}

void divert_exit(void)
{
    char text[256], *end = text_append(text, "onespace: task ");
    if (divert((uintptr_t)_exit) == 0)
        return;
    end = text_append_number(end, (uint64_t)atomic_load(&agent_self->id), 10);
    end = text_append(
        end,
        ": its libc's code cannot be changed here (PR_SET_MDWE or a security module forbids it): "
        "start it without thread mode\n");
    raw(__NR_write, 2, text, end - text);
    end_thread(127);
}
