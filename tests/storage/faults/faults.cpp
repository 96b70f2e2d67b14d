// tests/storage/faults/faults.cpp: see faults.hpp.
#include "faults.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "../../lib/long.hpp"

namespace
{

bool is_armed; // only what a scenario does counts
Fault fault;
Device device;
unsigned calls;

bool hits(Call call)
{
    if (!is_armed || call != fault.call)
        return false;
    calls++;
    if (calls != fault.number && !(fault.stays && fault.number && calls > fault.number))
        return false;
    fault.has_hit = true;
    errno = fault.error;
    return true;
}

void run(const Fault &wanted, const std::function<void()> &scenario)
{
    fault = wanted;
    calls = 0;
    is_armed = true;
    scenario();
    is_armed = false;
}

} // namespace

const char *name_of(Call call)
{
    static const char *const names[] = {
        "open",   "openat", "fallocate", "ftruncate", "fsync",       "fdatasync",
        "msync",  "pwrite", "pread",     "clone",     "mmap",        "mkdir",
        "unlink", "lock",   "io_setup",  "io_submit", "io_getevents"};
    return names[size_t(call)];
}

bool Fault::is_passing() const
{
    return error == 0 || error == EINTR || (call == Call::lock && error == ENOLCK);
}

std::string Fault::say() const
{
    return std::string(name_of(call)) + " " + std::to_string(number) + ": " +
           (error ? strerror(error) : "half") + (stays ? ", and all later ones" : "");
}

// In a usual run all of the first calls fail, and every seventh of the others: those are of pieces.
enum { FIRST = 8 };

void each_fault(Device wanted, Call call, std::initializer_list<int> errors,
                const std::function<void()> &scenario,
                const std::function<void(const Fault &)> &check)
{
    device = wanted;
    run({call}, scenario);
    unsigned count = calls;
    ASSERT_GT(count, 0u) << name_of(call) << " is never called";
    for (int error : errors)
        for (bool stays : {false, true})
            for (unsigned number = 1; number <= count; number += number < FIRST ? 1 : every(7)) {
                Fault next = {call, number, error, stays};
                if (stays && next.is_passing())
                    continue;
                run(next, scenario);
                Fault done = fault;
                ASSERT_TRUE(done.has_hit) << done.say();
                check(done);
                if (testing::Test::HasFailure()) {
                    ADD_FAILURE() << done.say();
                    return;
                }
            }
}

// ---- The wrapped calls ----

#define REAL(result, name, ...)                                                                    \
    extern "C" result __real_##name(__VA_ARGS__);                                                  \
    extern "C" result __wrap_##name(__VA_ARGS__);                                                  \
    extern "C" result __wrap_##name(__VA_ARGS__)

extern "C" int __real_open(const char *path, int flags, ...);
extern "C" int __wrap_open(const char *path, int flags, unsigned mode);
extern "C" int __wrap_open(const char *path, int flags, unsigned mode)
{
    return hits(Call::open) ? -1 : __real_open(path, flags, mode);
}

extern "C" int __real_openat(int directory, const char *path, int flags, ...);
extern "C" int __wrap_openat(int directory, const char *path, int flags, unsigned mode);
extern "C" int __wrap_openat(int directory, const char *path, int flags, unsigned mode)
{
    return hits(Call::openat) ? -1 : __real_openat(directory, path, flags, mode);
}

REAL(int, fallocate, int fd, int mode, off_t offset, off_t length)
{
    if (hits(Call::fallocate))
        return -1;
    if (device.has_fallocate || !is_armed)
        return __real_fallocate(fd, mode, offset, length);
    errno = EOPNOTSUPP;
    return -1;
}

REAL(int, ftruncate, int fd, off_t length)
{
    return hits(Call::ftruncate) ? -1 : __real_ftruncate(fd, length);
}

// Flushes are skipped here: tests/power tests what they are for.
REAL(int, fsync, int)
{
    return hits(Call::fsync) ? -1 : 0;
}

REAL(int, fdatasync, int)
{
    return hits(Call::fdatasync) ? -1 : 0;
}

REAL(int, msync, void *, size_t, int)
{
    return hits(Call::msync) ? -1 : 0;
}

REAL(ssize_t, pwrite, int fd, const void *data, size_t size, off_t offset)
{
    if (!hits(Call::pwrite))
        return __real_pwrite(fd, data, size, offset);
    return fault.error ? -1 : __real_pwrite(fd, data, (size + 1) / 2, offset);
}

REAL(ssize_t, pread, int fd, void *data, size_t size, off_t offset)
{
    if (!hits(Call::pread))
        return __real_pread(fd, data, size, offset);
    return fault.error ? -1 : __real_pread(fd, data, (size + 1) / 2, offset);
}

// Outcomes of asynchronous requests.
static void spoil(io_event *events, long count)
{
    for (long i = 0; i < count; i++) {
        auto *request = reinterpret_cast<iocb *>(events[i].obj);
        if (hits(request->aio_lio_opcode == IOCB_CMD_PREAD ? Call::pread : Call::pwrite))
            events[i].res = fault.error ? -fault.error : (events[i].res + 1) / 2;
    }
}

REAL(long, syscall, long number, long a, long b, long c, long d, long e, long f)
{
    if ((number == SYS_io_setup && hits(Call::io_setup)) ||
        (number == SYS_io_submit && hits(Call::io_submit)) ||
        (number == SYS_io_getevents && hits(Call::io_getevents)))
        return -1;
    long result = __real_syscall(number, a, b, c, d, e, f);
    if (number == SYS_io_getevents)
        spoil(reinterpret_cast<io_event *>(d), result);
    return result;
}

REAL(void *, mmap, void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    return hits(Call::mmap) ? MAP_FAILED : __real_mmap(at, length, protection, flags, fd, offset);
}

REAL(int, mkdirat, int directory, const char *path, mode_t mode)
{
    return hits(Call::mkdir) ? -1 : __real_mkdirat(directory, path, mode);
}

REAL(int, unlinkat, int directory, const char *path, int flags)
{
    return hits(Call::unlink) ? -1 : __real_unlinkat(directory, path, flags);
}

extern "C" int __real_fcntl(int fd, int command, ...);
extern "C" int __wrap_fcntl(int fd, int command, void *argument);
extern "C" int __wrap_fcntl(int fd, int command, void *argument)
{
    return command == F_OFD_SETLK && hits(Call::lock) ? -1 : __real_fcntl(fd, command, argument);
}

// A clone that fails may have shared some of the range.
static int clone_by_copying(int to, const file_clone_range &range)
{
    struct stat stat;
    if (fstat(int(range.src_fd), &stat) != 0)
        return -1;
    std::vector<char> data(size_t(stat.st_size) - range.src_offset);
    bool is_hit = hits(Call::clone);
    size_t size = is_hit ? data.size() / 2 : data.size();
    if (__real_pread(int(range.src_fd), data.data(), size, off_t(range.src_offset)) !=
            ssize_t(size) ||
        __real_pwrite(to, data.data(), size, off_t(range.dest_offset)) != ssize_t(size))
        return -1;
    if (is_hit)
        errno = fault.error;
    return is_hit ? -1 : 0;
}

extern "C" int __real_ioctl(int fd, unsigned long request, ...);
extern "C" int __wrap_ioctl(int fd, unsigned long request, void *argument);
extern "C" int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    if (request != FICLONERANGE || !is_armed)
        return __real_ioctl(fd, request, argument);
    if (device.has_clones)
        return clone_by_copying(fd, *static_cast<file_clone_range *>(argument));
    errno = EOPNOTSUPP;
    return -1;
}
