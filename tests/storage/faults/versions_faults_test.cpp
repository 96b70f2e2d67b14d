// tests/storage/faults/versions_faults_test.cpp: each system call that opening and committing make
// fails in turn: committed versions stay complete, and the failing call reports it.
#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>

#include "faults.hpp"
#include "directory.hpp"
#include "versions/window.hpp"

namespace
{

constexpr size_t Size = 5 * 65536 + 777;
constexpr unsigned Last = 5; // version

// The window's bytes at that version: each writes some of the pages.
std::vector<char> make_state(uint64_t version)
{
    std::vector<char> bytes(Size);
    for (size_t i = 0; i < Size; i++)
        for (uint64_t last = version; last; last--)
            if (last == 1 || (i / 4096 + last) % 3 == 0) {
                bytes[i] = static_cast<char>(last * 31 + i * 7);
                break;
            }
    return bytes;
}

const std::vector<char> &state_of(uint64_t version)
{
    static std::map<uint64_t, std::vector<char>> made;
    auto found = made.find(version);
    return found != made.end() ? found->second : made[version] = make_state(version);
}

void store_version(Window &window, uint64_t version)
{
    const std::vector<char> &wanted = state_of(version);
    for (size_t at = 0; at < Size; at += 4096) {
        size_t size = std::min<size_t>(4096, Size - at);
        if (memcmp(&window.bytes[at], &wanted[at], size) != 0)
            window.store(at, std::string(&wanted[at], size));
    }
}

class versions_faults : public testing::TestWithParam<bool>
{
  protected:
    // Opens the window twice and commits; retries what failed, like a program that has made room.
    void work()
    {
        directory = std::make_unique<Directory>();
        committed = 0, result = 0, tried_again = 1, said.clear();
        for (unsigned target : {Last / 2, Last}) {
            Window window(Size);
            window.is_unsure = GetParam();
            if ((result = window.open(*directory / "data", 2)) != 0) {
                said = window.error.text;
                return;
            }
            restored_right &= window.bytes == state_of(versions_newest(window.made));
            committed = versions_newest(window.made);
            while (committed < target) {
                store_version(window, committed + 1);
                if ((result = window.commit()) != 0) {
                    said = window.error.text;
                    tried_again = window.commit();
                    return;
                }
                committed = versions_newest(window.made);
            }
        }
    }

    void check(const Fault &fault)
    {
        EXPECT_TRUE(restored_right) << "what was restored is none of the versions";
        if (fault.is_passing()) {
            EXPECT_EQ(result, 0) << said;
        }
        if (result != 0) {
            EXPECT_EQ(result, -fault.error) << said;
            EXPECT_NE(said.find("data"), std::string::npos) << "names no file: " << said;
            bool may_have_lost = fault.error == EIO && fault.call != Call::openat;
            if (may_have_lost && tried_again != 1) {
                EXPECT_LT(tried_again, 0) << "a second flush may hide what the first one lost";
            }
            if (fault.error == ENOSPC && tried_again != 1)
                check_full(fault);
        }
        Window window(Size);
        ASSERT_EQ(window.open(*directory / "data", 2), 0) << window.error.text;
        uint64_t found = versions_newest(window.made);
        uint64_t least = tried_again == 0 ? committed + 1 : committed;
        EXPECT_GE(found, least) << "committed and lost";
        EXPECT_LE(found, committed + 1);
        EXPECT_TRUE(window.bytes == state_of(found)) << "version " << found << " is torn";
        store_version(window, found + 1);
        EXPECT_EQ(window.commit(), 0) << window.error.text;
    }

    // After room was made the program goes on, unless it is unknown whether a mark was written.
    void check_full(const Fault &fault)
    {
        bool is_mark = said.find("not marked") != std::string::npos;
        (is_mark ? full_marks : other_full)++;
        if (is_mark) {
            EXPECT_EQ(tried_again, -ENOSPC) << "a version that may be there is made again";
        } else if (!fault.stays) {
            EXPECT_EQ(tried_again, 0) << "there is room again: " << said;
        }
    }

    void fail_each(Device device, Call call, std::initializer_list<int> errors)
    {
        each_fault(
            device, call, errors, [this] { work(); }, [this](const Fault &fault) { check(fault); });
    }

    std::unique_ptr<Directory> directory;
    uint64_t committed;
    int result, tried_again; // the commit after one that failed; 1: there was none
    unsigned full_marks = 0, other_full = 0;
    std::string said;
    bool restored_right = true;
};

INSTANTIATE_TEST_SUITE_P(compared, versions_faults, testing::Bool());

TEST_P(versions_faults, writes)
{
    fail_each({}, Call::pwrite, {EIO, ENOSPC, EINTR, 0});
    EXPECT_GT(full_marks, 0u);
    EXPECT_GT(other_full, 0u);
}

TEST_P(versions_faults, reads)
{
    fail_each({}, Call::pread, {EIO, EINTR, 0});
}

TEST_P(versions_faults, flushes)
{
    fail_each({}, Call::fdatasync, {EIO, ENOSPC, EINTR});
    EXPECT_GT(full_marks, 0u);
    EXPECT_GT(other_full, 0u);
    fail_each({}, Call::fsync, {EIO, ENOSPC, EINTR});
}

TEST_P(versions_faults, reservations)
{
    fail_each({}, Call::fallocate, {EIO, ENOSPC, EINTR, EFBIG});
    fail_each({.has_fallocate = false}, Call::ftruncate, {EIO, EFBIG});
}

TEST_P(versions_faults, names)
{
    fail_each({}, Call::openat, {EIO, EMFILE, EACCES});
    fail_each({}, Call::mkdir, {EIO, ENOSPC, EACCES});
    fail_each({}, Call::lock, {EIO, ESTALE, EINTR, ENOLCK});
}

TEST_P(versions_faults, clones)
{
    fail_each({.has_clones = true}, Call::clone, {EIO, ENOSPC, EXDEV});
    fail_each({.has_clones = true}, Call::pwrite, {EIO, ENOSPC, 0});
}

} // namespace
