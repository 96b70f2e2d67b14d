/* src/launch/report.c: see report.h. */
#include "launch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "space/registry.h"

/* ---- --stats ---- */

static void report_task(const char *program, const struct onespace_status *status)
{
    fprintf(
        stderr,
        "onespace: task %d (%s, pid %d): %.3f s user, %.3f s system; copies in user space: %llu, "
        "%.3f MB; through the kernel: %llu; MPI collectives: %llu; XPMEM attaches: %llu\n",
        status->id, program, status->pid, (double)status->user_us / 1e6,
        (double)status->system_us / 1e6, (unsigned long long)status->copies,
        (double)status->copied_bytes / 1e6, (unsigned long long)status->kernel_copies,
        (unsigned long long)status->collectives, (unsigned long long)status->attaches);
}

void report_add(struct report_total *total, const struct onespace_status *status)
{
    total->tasks++;
    total->copies += status->copies;
    total->copied_bytes += status->copied_bytes;
    total->kernel_copies += status->kernel_copies;
    total->collectives += status->collectives;
    total->attaches += status->attaches;
    total->user_us += status->user_us;
    total->system_us += status->system_us;
}

static void report_total(const struct report_total *total)
{
    fprintf(stderr,
            "onespace: all %" PRIu32 " tasks together: copies in user space: %" PRIu64
            ", %.3f MB; through the kernel: %" PRIu64 "; MPI collectives: %" PRIu64
            "; XPMEM attaches: %" PRIu64 "; %.3f s user, %.3f s system\n",
            total->tasks, total->copies, (double)total->copied_bytes / 1e6, total->kernel_copies,
            total->collectives, total->attaches, (double)total->user_us / 1e6,
            (double)total->system_us / 1e6);
}

void report_end(enum report_detail detail, const char *program,
                const struct onespace_status *status, const struct report_total *total)
{
    if (detail == REPORT_RANKS || (detail == REPORT_JOB && total->tasks == 1))
        report_task(program, status);
    if (detail != REPORT_NONE && total->tasks > 1)
        report_total(total);
}

int report_exit_code(int error)
{
    switch (error) {
    case -ENOENT:
    case -ENOTDIR:
        return 127;
    case -EAGAIN:
    case -ENOMEM:
    case -EMFILE:
    case -ETIMEDOUT: /* the shim was stopped */
    case -EOWNERDEAD:
    case -ECONNREFUSED: /* the host of the space refused it */
        return 1;
    case -EINVAL:
        return 2;
    default:
        return 126;
    }
}

int report_departure(int id, const char *program, char *text, size_t size)
{
    const struct space_departure *departure = &space_registry()->departure;
    if (atomic_load_explicit(&departure->state, memory_order_acquire) != FILE_READY ||
        departure->id != id)
        return 0;
    snprintf(
        text, size,
        "%.200s left the space: it executed %.200s, which ran as an ordinary process; if that is "
        "to be a task, name it after onespace run (`onespace check` says whether it can be one)",
        program, departure->path);
    return 1;
}

/* ---- One message per launch ---- */

/* A record lock belongs to one process, unlike a lock by flock, and the kernel releases it when
 * that process ends. A seal marks that the message was printed, because a write would be subject to
 * RLIMIT_FSIZE. */

static void set_lock(int token, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    while (fcntl(token, F_SETLKW, &lock) != 0 && errno == EINTR)
        ;
}

int say_once_create(void)
{
    int token = memfd_create("onespace-said", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return token < 0 ? -errno : token;
}

int say_once_claim(int token, enum say_once what)
{
    set_lock(token, F_WRLCK);
    if (!(fcntl(token, F_GET_SEALS) & ((int)what | SAY_FAILURE)))
        return 1;
    set_lock(token, F_UNLCK);
    return 0;
}

void say_once_done(int token, enum say_once what)
{
    fcntl(token, F_ADD_SEALS, what); /* fails if there is a seal, or one against more of them */
    set_lock(token, F_UNLCK);
}
