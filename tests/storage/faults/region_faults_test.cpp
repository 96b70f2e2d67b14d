// tests/storage/faults/region_faults_test.cpp: each system call that a window without versions
// makes fails in turn: the failing call reports it, and what was synchronised is in the file.
#include <cerrno>
#include <cstring>
#include <vector>

#include "faults.hpp"
#include "region.hpp"
extern "C" {
#include "storage/file/file.h"
}

class region_faults : public Region, public testing::WithParamInterface<unsigned>
{
  protected:
    // In memory where possible: the device is not under test.
    std::string place() const override
    {
        return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : Region::place();
    }

    static constexpr uint64_t Offset = 4096 + 123;
    static constexpr size_t Size = (5 << 20) + 1001;

    // A new window: created, put into, stored into, synchronised, read, freed.
    void work()
    {
        storage_region mapped = {};
        storage_hints hints = hints_for(path());
        model.assign(Size, 0), loaded.assign(Size, 0);
        again = 1, synchronised = 1;
        direct_io_free_cached(); // each begins like a new process
        error.text[0] = 0;
        unlink(path().c_str());
        made = storage_file_open(&mapped.file, &hints, &error);
        if (made == 0)
            made = storage_file_lock(&mapped.file, {Offset, Size}, 0, &error);
        if (made == 0)
            made = storage_file_reserve(&mapped.file, {Offset, Size}, &error);
        if (made == 0)
            made = storage_region_map(&mapped, Offset, Size, nullptr, GetParam(), &error);
        if (made == 0)
            use(mapped);
        else
            storage_file_revert(&mapped.file, Offset + Size);
        unmap(mapped);
    }

    void use(storage_region &mapped)
    {
        std::vector<char> data(Size - 3000);
        for (size_t i = 0; i < data.size(); i++)
            data[i] = static_cast<char>(i * 2654435761u >> 16);
        storage_region_store(&mapped, mapped.file.fd, 3000, data.data(), data.size());
        memcpy(&model[3000], data.data(), data.size());
        for (size_t at = 5; at < Size; at += 300000)
            mapped.base[at] = model[at] = 'x';
        storage_region_load(&mapped, mapped.file.fd, 0, loaded.data(), Size);
        synchronised = storage_region_flush(&mapped, mapped.file.fd, {0, Size}, &error);
        if (synchronised != 0) {
            storage_error later;
            again = storage_region_flush(&mapped, mapped.file.fd, {0, Size}, &later);
        }
    }

    void check(const Fault &fault)
    {
        if (fault.is_passing()) {
            EXPECT_EQ(made, 0) << error.text;
        }
        if (made != 0) {
            EXPECT_EQ(made, -fault.error) << error.text;
            EXPECT_NE(strstr(error.text, "file"), nullptr) << error.text;
            EXPECT_EQ(size_of(path()), -1) << "the new file is left";
            return;
        }
        EXPECT_EQ(loaded, model) << "what was put is not what is got";
        if (synchronised != 0) {
            EXPECT_EQ(synchronised, -fault.error) << error.text;
            EXPECT_LT(again, 0) << "a flush that failed is tried again into success";
            return;
        }
        EXPECT_FALSE(fault.call == Call::msync && !fault.is_passing())
            << "a flush failed, and nothing says so";
        std::vector<char> in_file(Size);
        int fd = open(path().c_str(), O_RDONLY);
        EXPECT_EQ(pread(fd, in_file.data(), Size, Offset), static_cast<ssize_t>(Size));
        close(fd);
        EXPECT_EQ(in_file, model);
    }

    void fail_each(Device device, Call call, std::initializer_list<int> errors)
    {
        each_fault(
            device, call, errors, [this] { work(); }, [this](const Fault &fault) { check(fault); });
    }

    std::vector<char> model, loaded;
    int made, synchronised, again; // 1: was not tried
};

INSTANTIATE_TEST_SUITE_P(styles, region_faults,
                         testing::Values(0, STORAGE_SEQUENTIAL,
                                         STORAGE_WRITE_ONCE | STORAGE_READ_ONCE));

TEST_P(region_faults, flushes)
{
    fail_each({}, Call::msync, {EIO, ENOSPC, EDQUOT, EINTR});
    fail_each({}, Call::fsync, {EIO, ENOSPC, EINTR}); // of the directory
}

TEST_P(region_faults, reservations)
{
    fail_each({}, Call::fallocate, {EIO, ENOSPC, EINTR, EFBIG, EDQUOT});
}

// Then zeroes are written.
TEST_P(region_faults, reservations_without_fallocate)
{
    fail_each({.has_fallocate = false}, Call::fsync, {EIO, ENOSPC, EINTR});
    fail_each({.has_fallocate = false}, Call::pwrite, {EINTR, 0});
}

TEST_P(region_faults, writes)
{
    fail_each({}, Call::pwrite, {EIO, ENOSPC, EINTR, 0});
}

TEST_P(region_faults, reads)
{
    if (!(GetParam() & STORAGE_READ_ONCE))
        return; // data in memory is loaded without a call
    fail_each({}, Call::pread, {EIO, EINTR, 0});
}

// Without asynchronous requests pieces are transferred one by one; nothing is lost even when the
// kernel does not report the outcome of requests in flight.
TEST_P(region_faults, asynchronous_requests)
{
    if (!(GetParam() & STORAGE_READ_ONCE))
        return;
    fail_each({}, Call::io_setup, {EAGAIN, ENOSYS});
    fail_each({}, Call::io_submit, {EAGAIN});
    fail_each({}, Call::io_getevents, {EINTR, EINVAL});
}

TEST_P(region_faults, names_and_mappings)
{
    fail_each({}, Call::openat, {EIO, EMFILE, EACCES});
    fail_each({}, Call::mmap, {ENOMEM, EAGAIN});
    fail_each({}, Call::lock, {EIO, ESTALE, EINTR, ENOLCK});
}
