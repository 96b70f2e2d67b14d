// tests/base/file_identity_test.cpp: when a file is the one that was known.
#include <gtest/gtest.h>

extern "C" {
#include "base/file_identity.h"
}

namespace
{

// A file that was changed long ago.
struct stat settled()
{
    struct stat status = {};
    status.st_dev = 1;
    status.st_ino = 2;
    status.st_size = 3;
    status.st_mtim = {1000, 4};
    status.st_ctim = {1000, 5};
    return status;
}

bool is_unchanged(const struct stat &before, const struct stat &after)
{
    struct file_identity known = file_identity_of(&before), now = file_identity_of(&after);
    return file_is_unchanged(&known, &now);
}

} // namespace

TEST(file_identity, is_the_same_for_a_file_that_nobody_changed)
{
    struct stat later = settled();
    later.st_atim.tv_sec = 2000;
    later.st_nlink = 2;
    EXPECT_TRUE(is_unchanged(settled(), later));
}

TEST(file_identity, is_another_after_each_change)
{
    void (*const changes[])(struct stat &) = {
        [](struct stat &status) { status.st_dev++; },
        [](struct stat &status) { status.st_ino++; },
        [](struct stat &status) { status.st_size++; },
        [](struct stat &status) { status.st_mtim.tv_sec++; },
        [](struct stat &status) { status.st_mtim.tv_nsec++; },
        [](struct stat &status) { status.st_ctim.tv_sec++; },
        [](struct stat &status) { status.st_ctim.tv_nsec++; },
    };
    for (auto change : changes) {
        struct stat changed = settled();
        change(changed);
        EXPECT_FALSE(is_unchanged(settled(), changed));
    }
}

// Two changes within the granularity of time stamps look alike.
TEST(file_identity, of_a_file_that_was_changed_just_now_is_not_known)
{
    struct stat fresh = settled();
    timespec after;
    bool is_known;
    do { // until this thread is not interrupted for longer than the granularity
        clock_gettime(CLOCK_REALTIME, &fresh.st_ctim);
        is_known = is_unchanged(fresh, fresh);
        clock_gettime(CLOCK_REALTIME, &after);
    } while ((after.tv_sec - fresh.st_ctim.tv_sec) * 1000000000L + after.tv_nsec -
                 fresh.st_ctim.tv_nsec >
             50000000);
    EXPECT_FALSE(is_known);
    fresh.st_ctim.tv_sec += 3600;
    EXPECT_FALSE(is_unchanged(fresh, fresh)) << "the server's clock may be ahead";
}
