// tests/storage/file/file_test.cpp: files are opened, reserved, locked and removed.
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "region.hpp"

class file : public Region
{
};

TEST_F(file, is_created_with_its_permissions)
{
    storage_file made;
    storage_hints hints = hints_for(path());
    hints.perm = 0640;
    ASSERT_EQ(storage_file_open(&made, &hints, &error), 0) << error.text;
    EXPECT_TRUE(made.is_created);
    struct stat status;
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
    storage_file_close(&made);
}

TEST_F(file, that_cannot_be_says_its_path_and_why)
{
    storage_file made;
    storage_hints hints = hints_for(directory + "/none/file");
    EXPECT_EQ(storage_file_open(&made, &hints, &error), -ENOENT);
    EXPECT_NE(std::string(error.text).find("/none/file"), std::string::npos);
    EXPECT_NE(std::string(error.text).find("No such file"), std::string::npos);
    storage_file_close(&made);
    storage_hints itself = hints_for(directory);
    EXPECT_EQ(storage_file_open(&made, &itself, &error), -EISDIR);
    storage_file_close(&made);
}

/* As an NFS server gives its clients. */
TEST_F(file, is_opened_when_a_lease_on_it_has_been_given_back)
{
    storage_file made;
    int ready[2];
    char byte;
    sigset_t broken;
    sigemptyset(&broken);
    sigaddset(&broken, SIGIO);
    ASSERT_EQ(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(path().c_str(), O_RDWR | O_CREAT, 0600), number;
        if (sigprocmask(SIG_BLOCK, &broken, nullptr) != 0 || fcntl(fd, F_SETLEASE, F_WRLCK) != 0 ||
            write(ready[1], "", 1) != 1 || sigwait(&broken, &number) != 0)
            _exit(1);
        usleep(100000);
        _exit(fcntl(fd, F_SETLEASE, F_UNLCK) != 0);
    }
    close(ready[1]);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    storage_hints hints = hints_for(path());
    EXPECT_EQ(storage_file_open(&made, &hints, &error), 0) << error.text;
    storage_file_close(&made);
    int status;
    ASSERT_EQ(waitpid(holder, &status, 0), holder);
    EXPECT_EQ(status, 0);
    close(ready[0]);
}

TEST_F(file, has_its_place_reserved)
{
    storage_file made;
    open_file(made);
    ASSERT_EQ(storage_file_reserve(&made, {5000, 1 << 20}, &error), 0) << error.text;
    struct stat status;
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_size, 5000 + (1 << 20));
    EXPECT_GE(status.st_blocks * 512, 1 << 20);
    storage_file_close(&made);
}

/* Otherwise the next flush would write metadata although nothing was stored. */
TEST_F(file, that_has_its_place_stays_as_it_is)
{
    storage_file made;
    struct stat before, after;
    open_file(made);
    ASSERT_EQ(storage_file_reserve(&made, {0, 1 << 20}, &error), 0) << error.text;
    std::vector<char> data(1 << 20, 'x');
    ASSERT_EQ(pwrite(made.fd, data.data(), data.size(), 0), 1 << 20);
    ASSERT_EQ(fsync(made.fd), 0);
    ASSERT_EQ(fstat(made.fd, &before), 0);
    usleep(50000); /* the clock of file systems is coarse */
    ASSERT_EQ(storage_file_reserve(&made, {5000, 100000}, &error), 0) << error.text;
    ASSERT_EQ(fstat(made.fd, &after), 0);
    struct fiemap asked = {};
    asked.fm_length = 1 << 20;
    int can_tell = ioctl(made.fd, FS_IOC_FIEMAP, &asked) == 0;
    storage_file_close(&made);
    if (!can_tell)
        GTEST_SKIP() << "this file system cannot tell what has its place";
    EXPECT_EQ(memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)), 0);
}

TEST_F(file, with_holes_gets_what_is_missing)
{
    storage_file made;
    struct stat status;
    open_file(made);
    ASSERT_EQ(ftruncate(made.fd, 8 << 20), 0);
    ASSERT_EQ(storage_file_reserve(&made, {2 << 20, 1 << 20}, &error), 0) << error.text;
    ASSERT_EQ(storage_file_reserve(&made, {1 << 20, 4 << 20}, &error), 0) << error.text;
    ASSERT_EQ(fstat(made.fd, &status), 0);
    EXPECT_GE(status.st_blocks * 512, 4 << 20);
    EXPECT_EQ(status.st_size, 8 << 20);
    storage_file_close(&made);
}

TEST_F(file, of_impossible_size_is_refused)
{
    storage_file made;
    open_file(made);
    EXPECT_LT(storage_file_reserve(&made, {0, UINT64_C(1) << 62}, &error), 0);
    EXPECT_LT(storage_file_reserve(&made, {UINT64_MAX - 1, 100}, &error), 0);
    storage_file_revert(&made, 0);
    EXPECT_EQ(size_of(path()), -1) << "a new file is removed";
    storage_file_close(&made);
}

TEST_F(file, that_was_there_gets_its_size_back)
{
    storage_file made;
    open_file(made);
    ASSERT_EQ(ftruncate(made.fd, 1234), 0);
    storage_file_close(&made);
    open_file(made);
    EXPECT_FALSE(made.is_created);
    ASSERT_EQ(storage_file_reserve(&made, {0, 100000}, &error), 0);
    EXPECT_EQ(size_of(path()), 100000);
    storage_file_revert(&made, 100000);
    EXPECT_EQ(size_of(path()), 1234);
    storage_file_close(&made);
}

TEST_F(file, that_another_window_has_locked_stays)
{
    storage_file made, other;
    open_file(made);
    open_file(other);
    ASSERT_EQ(storage_file_lock(&other, {0, 100}, 0, &error), 0) << error.text;
    ASSERT_EQ(storage_file_reserve(&other, {0, 100}, &error), 0) << error.text;
    EXPECT_EQ(storage_file_lock(&made, {0, 100}, 0, &error), -EWOULDBLOCK);
    storage_file_revert(&made, 100); // which has created it
    EXPECT_EQ(size_of(path()), 100);
    storage_file_close(&made);
    open_file(made);
    ASSERT_EQ(storage_file_lock(&made, {200, 100}, 0, &error), 0) << error.text;
    ASSERT_EQ(storage_file_reserve(&made, {200, 100}, &error), 0) << error.text;
    storage_file_revert(&other, 300);
    EXPECT_EQ(size_of(path()), 300);
    storage_file_close(&other);
    storage_file_close(&made);
}

// It came after the file was opened, and is gone with its locks.
TEST_F(file, that_another_window_has_made_longer_stays)
{
    for (int is_created : {1, 0}) {
        storage_file made, other;
        open_file(made);
        EXPECT_EQ(made.is_created, is_created);
        open_file(other);
        uint64_t offset = made.initial_size + 1000;
        ASSERT_EQ(storage_file_reserve(&other, {offset, 100}, &error), 0) << error.text;
        storage_file_close(&other);
        ASSERT_EQ(storage_file_reserve(&made, {0, 50}, &error), 0) << error.text;
        storage_file_revert(&made, 50);
        EXPECT_EQ(size_of(path()), static_cast<long>(offset) + 100);
        storage_file_close(&made);
    }
}

TEST_F(file, that_was_removed_before_it_was_locked_is_refused)
{
    storage_file made, other;
    open_file(made);
    open_file(other);
    storage_file_revert(&made, 0);
    storage_file_close(&made);
    EXPECT_EQ(storage_file_lock(&other, {0, 100}, 0, &error), -ESTALE);
    storage_file_close(&other);
}

TEST_F(file, beyond_the_limit_on_sizes_is_refused)
{
    storage_file made;
    struct rlimit old, small;
    open_file(made);
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_EQ(storage_file_reserve(&made, {0, 2000}, &error), -EFBIG);
    EXPECT_NE(std::string(error.text).find("ulimit -f"), std::string::npos) << error.text;
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_EQ(storage_file_reserve(&made, {0, 2000}, &error), 0) << error.text;
    storage_file_close(&made);
}

TEST_F(file, is_locked_by_range)
{
    storage_file one, other;
    open_file(one);
    open_file(other);
    EXPECT_EQ(storage_file_lock(&one, {100, 100}, 0, &error), 0);
    EXPECT_EQ(storage_file_lock(&other, {200, 100}, 0, &error), 0);
    EXPECT_EQ(storage_file_lock(&other, {199, 1}, 0, &error), -EWOULDBLOCK);
    EXPECT_NE(std::string(error.text).find("bytes 199 to 199 are in use"), std::string::npos);
    EXPECT_EQ(storage_file_lock(&other, {199, 1}, 1, &error), -EWOULDBLOCK);
    EXPECT_EQ(storage_file_lock(&one, {500, 1}, 1, &error), 0);
    EXPECT_EQ(storage_file_lock(&other, {500, 1}, 1, &error), 0);
    storage_file_close(&one);
    EXPECT_EQ(storage_file_lock(&other, {100, 100}, 0, &error), 0) << "closing unlocks";
    storage_file_close(&other);
}

TEST_F(file, of_another_name_is_not_removed)
{
    storage_file made, second;
    open_file(made);
    ASSERT_EQ(rename(path().c_str(), path("kept").c_str()), 0);
    open_file(second);
    EXPECT_EQ(storage_file_unlink(&made, &error), 0);
    EXPECT_EQ(size_of(path()), 0) << "the name is another file's by now";
    EXPECT_EQ(storage_file_unlink(&second, &error), 0);
    EXPECT_EQ(size_of(path()), -1);
    storage_file_close(&made);
    storage_file_close(&second);
}

TEST_F(file, under_available_memory_is_bounded_by_the_machine)
{
    uint64_t pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
    EXPECT_GT(storage_memory_available(), 1u << 20);
    EXPECT_LE(storage_memory_available(), pages * Page);
}
