// tests/storage/versions/versions_test.cpp: versions of a window, by one rank and by several.
#include <array>
#include <barrier>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/mount.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "crew.hpp"
#include "directory.hpp"
#include "window.hpp"

namespace fs = std::filesystem;

namespace
{

// ---- A window of one rank, in this process ----

size_t written;

ssize_t count_write(int fd, const void *data, size_t size, off_t at)
{
    ssize_t put = pwrite(fd, data, size, at);
    written += put > 0 ? size_t(put) : 0;
    return put;
}

struct Counted : Window {
    using Window::Window;
    int open(const std::string &path)
    {
        static const versions_io io = {count_write, versions_io_system.flush,
                                       versions_io_system.flush_directory,
                                       versions_io_system.random};
        return Window::open(path, 1, &io);
    }
};

// The window has 16 MiB.
void commit_writes_one_page(Counted &window)
{
    written = 0;
    window.store(5 << 20, "one page");
    ASSERT_EQ(window.commit(), 0);
    // A page, the header twice, and 4 bytes for each of 256 blocks.
    EXPECT_LE(written, 4096u + 8192u + 2 * 512u + 1024u);
}

std::string newest_slot(const std::string &path)
{
    std::string best;
    uint64_t newest = 0;
    for (auto &entry : fs::directory_iterator(path + ".versions")) {
        unsigned char header[VERSIONS_HEADER] = {};
        version_record record;
        std::ifstream(entry.path()).read(reinterpret_cast<char *>(header), sizeof(header));
        if (version_record_read(&record, header) == 0 && record.version > newest) {
            newest = record.version;
            best = entry.path();
        }
    }
    return best;
}

void flip_byte(const std::string &path, off_t at)
{
    char byte = 0;
    int fd = open(path.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(pread(fd, &byte, 1, at), 1);
    byte = char(byte ^ 0x10);
    ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

// ---- Format ----

TEST(versions_format, sum_is_crc32c)
{
    EXPECT_EQ(versions_crc("123456789", 9), 0xe3069283u); // the check value of the polynomial
    EXPECT_EQ(versions_crc_plain("123456789", 9), 0xe3069283u);
}

TEST(versions_format, sum_with_and_without_the_instruction_agree)
{
    std::mt19937 random(1);
    std::vector<unsigned char> data(5000);
    for (auto &byte : data)
        byte = (unsigned char)random();
    for (size_t size = 0; size < data.size(); size += 1 + size / 7)
        EXPECT_EQ(versions_crc(data.data() + size % 5, size),
                  versions_crc_plain(data.data() + size % 5, size));
}

version_record sample_record()
{
    version_record record = {};
    memset(record.job, 3, sizeof(record.job));
    memset(record.nonce, 7, sizeof(record.nonce));
    record.version = 12, record.rank = 2, record.ranks = 5;
    record.offset = 1 << 20, record.length = 123456789, record.is_in_file = 1;
    record.sums_crc = 99, record.time = 1234567890;
    return record;
}

TEST(versions_format, record_is_read_as_it_was_written)
{
    version_record record = sample_record(), read = {};
    unsigned char bytes[VERSIONS_HEADER];
    version_record_write(&record, bytes);
    ASSERT_EQ(version_record_read(&read, bytes), 0);
    EXPECT_EQ(memcmp(&record, &read, sizeof(record)), 0);
}

TEST(versions_format, record_has_the_documented_bytes)
{
    version_record record = sample_record();
    unsigned char bytes[VERSIONS_HEADER];
    version_record_write(&record, bytes);
    EXPECT_EQ(memcmp(bytes, "ONESPVER\1\0\0\0\0\0\1\0", 16), 0);
    EXPECT_EQ(bytes[48], 12); // version, little-endian
    EXPECT_EQ(bytes[56], 2);
    EXPECT_EQ(bytes[60], 5);
    EXPECT_EQ(bytes[66], 0x10); // offset 1 MiB
}

TEST(versions_format, damaged_record_is_refused)
{
    version_record record = sample_record(), read;
    unsigned char bytes[VERSIONS_HEADER];
    version_record_write(&record, bytes);
    for (int i = 0; i < VERSIONS_HEADER; i++) {
        bytes[i] ^= 4;
        EXPECT_NE(version_record_read(&read, bytes), 0) << i;
        bytes[i] ^= 4;
    }
}

TEST(versions_format, mark_fits_its_own_record_only)
{
    version_record record = sample_record(), other = record;
    unsigned char mark[VERSIONS_HEADER];
    version_mark_write(&record, mark);
    EXPECT_TRUE(version_mark_fits(&record, mark));
    other.nonce[5] ^= 1;
    EXPECT_FALSE(version_mark_fits(&other, mark));
}

class versions : public testing::Test
{
  protected:
    versions()
    {
        job.path = path;
    }
    void make_versions(size_t size, int commits)
    {
        Window window(size);
        ASSERT_EQ(window.open(path), 0) << window.error.text;
        window.commit_times(commits);
    }
    // Opening the newest version fails: it does not fit, or is damaged.
    void expect_refusal(Window &window, std::initializer_list<const char *> words)
    {
        EXPECT_EQ(window.open(path), -EUCLEAN);
        for (const char *word : words)
            EXPECT_NE(strstr(window.error.text, word), nullptr) << window.error.text;
    }
    // A job of processes, whose ranks agree and find no torn version.
    Outcome run()
    {
        Outcome outcome = run_job(job);
        EXPECT_FALSE(outcome.has_hung);
        EXPECT_EQ(outcome.torn, "");
        EXPECT_FALSE(outcome.errors_differ);
        return outcome;
    }
    size_t slots() const
    {
        size_t count = 0;
        for (auto &entry : fs::directory_iterator(path + ".versions"))
            count += entry.path().filename() != "lock";
        return count;
    }
    void remove_all()
    {
        fs::remove(path);
        fs::remove_all(path + ".versions");
    }

    Directory directory;
    std::string path = directory / "data";
    Job job;
};

// ---- One rank ----

TEST_F(versions, reopened_window_has_the_newest)
{
    {
        Window window(100000);
        ASSERT_EQ(window.open(path), 0) << window.error.text;
        EXPECT_EQ(versions_newest(window.made), 0u);
        window.store(10, "first");
        ASSERT_EQ(window.commit(), 0) << window.error.text;
        window.store(99990, "second");
        ASSERT_EQ(window.commit(), 0) << window.error.text;
        window.store(50000, "never committed");
    }
    Window window(100000);
    ASSERT_EQ(window.open(path), 0) << window.error.text;
    EXPECT_EQ(versions_newest(window.made), 2u);
    EXPECT_STREQ(window.bytes.data() + 10, "first");
    EXPECT_STREQ(window.bytes.data() + 99990, "second");
    EXPECT_EQ(window.bytes[50000], 0);
}

TEST_F(versions, empty_part_has_versions_too)
{
    Window window(0);
    ASSERT_EQ(window.open(path), 0) << window.error.text;
    ASSERT_EQ(window.commit(), 0) << window.error.text;
    EXPECT_EQ(versions_newest(window.made), 1u);
}

TEST_F(versions, commit_writes_what_changed)
{
    Counted window(16 << 20);
    ASSERT_EQ(window.open(path), 0);
    window.commit_times(3);
    ASSERT_NO_FATAL_FAILURE(commit_writes_one_page(window));
}

TEST_F(versions, commit_writes_what_differs_when_changes_are_not_known)
{
    Counted window(16 << 20);
    window.is_unsure = true;
    ASSERT_EQ(window.open(path), 0);
    window.commit_times(3);
    ASSERT_NO_FATAL_FAILURE(commit_writes_one_page(window));
    versions_close(window.made);
    window.made = nullptr;
    Counted again(16 << 20);
    ASSERT_EQ(again.open(path), 0);
    EXPECT_STREQ(again.bytes.data() + (5 << 20), "one page");
}

TEST_F(versions, first_commit_after_opening_writes_what_differs)
{
    make_versions(16 << 20, 2);
    Counted window(16 << 20);
    ASSERT_EQ(window.open(path), 0);
    ASSERT_NO_FATAL_FAILURE(commit_writes_one_page(window));
}

TEST_F(versions, commit_reports_its_progress)
{
    constexpr uint64_t mib = 1 << 20;
    Window window(40 * mib);
    ASSERT_EQ(window.open(path), 0) << window.error.text;
    ASSERT_EQ(window.commit(), 0);
    using reports = std::vector<std::pair<uint64_t, uint64_t>>;
    EXPECT_EQ(
        window.reports,
        (reports{{0, 40 * mib}, {16 * mib, 40 * mib}, {32 * mib, 40 * mib}, {40 * mib, 40 * mib}}));
    for (int i = 0; i < 2; i++) { // the other slot lacks everything, then both lack what is stored
        window.reports.clear();
        window.store(20 * mib, "new");
        ASSERT_EQ(window.commit(), 0);
    }
    EXPECT_EQ(window.reports.front().first, 0u);
    EXPECT_EQ(window.reports.back(), (std::pair<uint64_t, uint64_t>{4096, 4096}));
}

TEST_F(versions, as_many_as_asked_for_are_kept)
{
    Window window(10000);
    ASSERT_EQ(window.open(directory / "data", 3), 0);
    for (int i = 0; i < 9; i++) {
        window.store(5, std::to_string(i));
        ASSERT_EQ(window.commit(), 0);
    }
    EXPECT_EQ(slots(), 4u);
}

TEST_F(versions, second_opening_at_a_time_is_refused)
{
    Window first(10000), second(10000);
    ASSERT_EQ(first.open(path), 0);
    EXPECT_EQ(second.open(path), -EBUSY);
    EXPECT_NE(strstr(second.error.text, "another window or job"), nullptr) << second.error.text;
}

// Also with the first blocks, which are not damaged.
TEST_F(versions, damaged_data_is_refused_by_name_and_changes_nothing)
{
    make_versions(200000, 1);
    std::string slot = newest_slot(path);
    flip_byte(slot, off_t(version_data_at(200000)) + 150000);
    Window window(200000);
    window.store(7, "data file");
    expect_refusal(window, {"rank-0.slot-", "--repair"});
    EXPECT_STREQ(window.bytes.data() + 7, "data file");
}

TEST_F(versions, slot_that_was_cut_off_is_refused)
{
    make_versions(200000, 2);
    std::string slot = newest_slot(path);
    fs::resize_file(slot, fs::file_size(slot) - 1);
    Window window(200000);
    expect_refusal(window, {"rank-0.slot-", "--repair"});
}

TEST_F(versions, slot_whose_record_is_damaged_is_refused)
{
    make_versions(200000, 2);
    flip_byte(newest_slot(path), VERSIONS_RECORD_AT + 100);
    Window window(200000);
    expect_refusal(window, {"rank-0.slot-", "version 2 is damaged in its first bytes"});
}

// The part cannot be read: found before it is read, or only afterwards.
TEST_F(versions, commit_of_a_part_that_failed_is_refused)
{
    for (int holds : {0, 1}) {
        remove_all();
        make_versions(200000, 2);
        {
            Window window(200000);
            ASSERT_EQ(window.open(path), 0) << window.error.text;
            window.store(7, "zeroes");
            window.checks_that_hold = holds;
            EXPECT_EQ(window.commit(), -EIO);
            EXPECT_STREQ(window.error.text, "a page is lost");
            EXPECT_EQ(window.commit(), -EIO) << "it stays failed";
        }
        Window window(200000);
        ASSERT_EQ(window.open(path), 0) << window.error.text;
        EXPECT_EQ(versions_newest(window.made), 2u);
        EXPECT_STRNE(window.bytes.data() + 7, "zeroes");
    }
}

TEST_F(versions, other_size_is_refused)
{
    make_versions(200000, 1);
    Window window(300000);
    expect_refusal(window, {"200000 bytes"});
}

// An older version would fit the larger window. The newest one is what the job left.
TEST_F(versions, window_larger_than_the_newest_version_is_refused_and_changes_nothing)
{
    for (size_t size : {200000, 100000}) {
        Window window(size);
        ASSERT_EQ(window.open(path), 0) << window.error.text;
        window.store(7, "of " + std::to_string(size));
        ASSERT_EQ(window.commit(), 0) << window.error.text;
    }
    Window larger(200000);
    larger.store(7, "data file");
    expect_refusal(larger, {(path + ".versions").c_str(), "version, 2, has 100000 bytes"});
    EXPECT_STREQ(larger.bytes.data() + 7, "data file");
    Window again(100000);
    ASSERT_EQ(again.open(path), 0) << again.error.text;
    EXPECT_EQ(versions_newest(again.made), 2u);
    EXPECT_STREQ(again.bytes.data() + 7, "of 100000");
}

// A slot as another program might write it, with all sums right.
void forge_slot(const std::string &path, uint64_t version)
{
    uint32_t sum = 0;
    version_record record = {};
    record.version = version, record.ranks = 1, record.is_in_file = 1;
    record.sums_crc = versions_crc(&sum, 0);
    std::vector<unsigned char> bytes(version_size(0));
    version_record_write(&record, bytes.data() + VERSIONS_RECORD_AT);
    version_mark_write(&record, bytes.data() + VERSIONS_MARK_AT);
    std::ofstream(path).write(reinterpret_cast<char *>(bytes.data()), long(bytes.size()));
}

TEST_F(versions, committed_version_is_found_again_whatever_number_came_before)
{
    for (uint64_t forged : {UINT64_MAX, uint64_t(INT64_MAX), VERSIONS_NUMBER_MAX + 1,
                            VERSIONS_NUMBER_MAX, VERSIONS_NUMBER_MAX - 1}) {
        uint64_t made = 0;
        remove_all();
        fs::create_directory(path + ".versions");
        forge_slot(path + ".versions/rank-0.slot-0", forged);
        {
            Window window(0);
            ASSERT_EQ(window.open(path), 0) << window.error.text;
            EXPECT_EQ(versions_newest(window.made), forged > VERSIONS_NUMBER_MAX ? 0 : forged);
            int result = window.commit();
            EXPECT_EQ(result, forged == VERSIONS_NUMBER_MAX ? -EOVERFLOW : 0) << window.error.text;
            made = versions_newest(window.made);
        }
        Window window(0);
        ASSERT_EQ(window.open(path), 0) << window.error.text;
        EXPECT_EQ(versions_newest(window.made), made) << forged;
    }
}

// Opening either restores the right bytes or is an error, and never a crash.
TEST_F(versions, damaged_headers_are_never_taken_for_data)
{
    std::mt19937 random(7);
    for (int round = 0; round < 100; round++) {
        remove_all();
        {
            Window window(70000);
            ASSERT_EQ(window.open(path), 0);
            for (int i = 1; i <= 3; i++) {
                window.store(0, std::string(1, char(i)) + std::string(60000, char(i)));
                ASSERT_EQ(window.commit(), 0);
            }
        }
        for (int i = 0; i < 3; i++) {
            int slot = int(random() % 2);
            flip_byte(path + ".versions/rank-0.slot-" + std::to_string(slot),
                      off_t(random() % 2 ? random() % 512 : 4096 + random() % 512));
        }
        Window window(70000);
        int result = window.open(path);
        if (result == 0 && versions_newest(window.made)) {
            char version = char(versions_newest(window.made));
            EXPECT_EQ(window.bytes[0], version);
            EXPECT_EQ(window.bytes[59999], version);
        }
    }
}

// ---- Other users ----

constexpr uid_t Other = 65534;

// The window's directory is one that all users may write to, as /tmp; one version was committed.
class versions_where_all_may_write : public versions
{
  protected:
    void SetUp() override
    {
        std::ofstream(victim) << "private";
        chmod((directory / "").c_str(), 01777);
        make_shared_versions();
    }
    void make_shared_versions()
    {
        remove_all();
        umask(0);
        std::ofstream(path).flush(); // with 0666, so that its versions are open to all, too
        umask(022);
        make_versions(10000, 1);
    }
    // Opening the window fails with that message and leaves the victim alone.
    void expect_refusal(const std::string &message)
    {
        Window window(10000);
        int result = window.open(path);
        EXPECT_TRUE(result == -EPERM || result == -EINVAL) << result;
        EXPECT_NE(strstr(window.error.text, message.c_str()), nullptr) << window.error.text;
        std::string content;
        std::getline(std::ifstream(victim), content);
        EXPECT_EQ(content, "private");
        EXPECT_FALSE(fs::exists(missing));
    }

    std::string files = path + ".versions", slot = files + "/rank-0.slot-0", lock = files + "/lock";
    std::string victim = directory / "victim", missing = directory / "missing";
};

TEST_F(versions_where_all_may_write, are_as_accessible_as_the_data)
{
    struct stat status;
    for (mode_t mode : {0666, 0640, 0600}) {
        fs::remove_all(files);
        ASSERT_EQ(chmod(path.c_str(), mode), 0);
        make_versions(10000, 1);
        ASSERT_EQ(stat(slot.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, mode);
        ASSERT_EQ(stat(files.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, 0700 | mode | (mode & 0444) >> 2);
    }
}

TEST_F(versions_where_all_may_write, links_are_not_followed)
{
    for (const std::string &file : {slot, lock})
        for (const std::string &target : {victim, missing}) {
            fs::remove(file);
            fs::create_symlink(target, file);
            expect_refusal(fs::path(file).filename().string() + ": this is a symbolic link");
            make_shared_versions();
        }
}

TEST_F(versions_where_all_may_write, slot_with_a_second_name_is_refused)
{
    fs::remove(slot);
    fs::create_hard_link(victim, slot);
    expect_refusal("has another name");
}

// Opening it for reading would wait for a writer.
TEST_F(versions_where_all_may_write, slot_that_is_a_fifo_is_refused_at_once)
{
    fs::remove(slot);
    ASSERT_EQ(mkfifo(slot.c_str(), 0600), 0);
    expect_refusal("rank-0.slot-0: this is neither a regular file");
}

TEST_F(versions_where_all_may_write, directory_of_another_user_is_refused)
{
    for (bool is_link : {false, true}) {
        std::string own = directory / "own";
        fs::rename(files, own);
        if (is_link)
            fs::create_symlink(own, files);
        else
            fs::create_directory(files);
        if (lchown(files.c_str(), Other, Other) != 0)
            GTEST_SKIP() << "needs root: gives files to another user";
        expect_refusal(is_link ? "symbolic link of another user" : "belongs to one of them");
        expect_refusal("data.versions: ");
        fs::remove_all(own);
        make_shared_versions();
    }
}

TEST_F(versions, directory_that_cannot_be_made_is_named)
{
    Window window(1000);
    EXPECT_EQ(window.open("/proc/self/data"), -ENOENT);
    EXPECT_NE(strstr(window.error.text, "/proc/self/data.versions"), nullptr) << window.error.text;
}

// ---- Several ranks ----

std::string opened_meanwhile;

// The other rank opens and locks the versions while this one fails to make their directory durable.
int fail_while_another_rank_locks(int)
{
    int lock = open((opened_meanwhile + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_GE(lock, 0);
    close(lock);
    errno = ENOSPC;
    return -1;
}

TEST_F(versions, directory_that_another_rank_has_opened_goes_with_the_opening_that_failed)
{
    static const versions_io io = {versions_io_system.write, versions_io_system.flush,
                                   fail_while_another_rank_locks, versions_io_system.random};
    Window window(1000);
    opened_meanwhile = path + ".versions";
    EXPECT_EQ(window.open(path, 1, &io), -ENOSPC);
    EXPECT_FALSE(fs::exists(path + ".versions"));
}

TEST_F(versions, shared_file_restarts_with_other_ranks)
{
    job.pages = 100, job.tail = 1000;
    uint64_t expected = 0;
    for (uint32_t ranks : {4, 2, 3, 1, 5, 4}) {
        job.ranks = ranks;
        Outcome outcome = run();
        EXPECT_EQ(outcome.error, 0) << outcome.text;
        EXPECT_EQ(outcome.restored, expected) << ranks << " ranks";
        expected = outcome.committed;
    }
    EXPECT_EQ(expected, 18u);
}

TEST_F(versions, leftovers_of_other_ranks_go)
{
    job.ranks = 5;
    EXPECT_EQ(run().error, 0);
    job.ranks = 2;
    EXPECT_EQ(run().error, 0);
    EXPECT_EQ(slots(), 4u); // two ranks, two slots each
}

// Two ranks that are threads.
struct Pair {
    std::barrier<> both{2};
    std::array<int64_t, 2> value{};
    void *data = nullptr;

    struct Rank {
        Pair *pair;
        uint32_t rank;
    };
    static int broadcast(void *context, void *data, size_t size)
    {
        auto [pair, rank] = *static_cast<Rank *>(context);
        if (rank == 0)
            pair->data = data;
        pair->both.arrive_and_wait();
        if (rank == 1)
            memcpy(data, pair->data, size);
        pair->both.arrive_and_wait();
        return 0;
    }
    static int least(void *context, int64_t value, int64_t *result)
    {
        auto [pair, rank] = *static_cast<Rank *>(context);
        pair->value[rank] = value;
        pair->both.arrive_and_wait();
        *result = std::min(pair->value[0], pair->value[1]);
        pair->both.arrive_and_wait();
        return 0;
    }
    // Opens the windows of both ranks and commits them.
    int make_version(const std::string &path, Window &first, Window &second)
    {
        std::array<int, 2> result{};
        auto run = [&](uint32_t rank, Window &window) {
            Rank self = {this, rank};
            versions_group group = {&self, rank, 2, broadcast, least};
            result[rank] = window.open(path, 1, nullptr, &group);
            if (result[rank] == 0)
                result[rank] = window.commit();
            versions_close(std::exchange(window.made, nullptr));
        };
        std::thread other(run, 1, std::ref(second));
        run(0, first);
        other.join();
        return result[0] ? result[0] : result[1];
    }
};

TEST_F(versions, of_ranks_whose_bytes_are_not_all_in_the_file_leave_other_parts_alone)
{
    constexpr size_t Size = 1 << 20;
    Window in_file(Size), in_memory(2 * Size), reopened(Size);
    in_file.offset = reopened.offset = Size;
    in_memory.is_in_file = 0;
    in_file.store(0, "in the file");
    in_memory.store(Size, "in memory");
    ASSERT_EQ(Pair().make_version(path, in_file, in_memory), 0) << in_file.error.text;
    ASSERT_EQ(reopened.open(path), 0) << reopened.error.text;
    EXPECT_STREQ(reopened.bytes.data(), "in the file");
}

TEST_F(versions, file_per_rank_restarts_with_as_many)
{
    job.ranks = 3, job.is_separate = true;
    EXPECT_EQ(run().error, 0);
    Outcome outcome = run();
    EXPECT_EQ(outcome.restored, 3u);
    EXPECT_EQ(outcome.committed, 6u);
}

TEST_F(versions, file_per_rank_refuses_other_ranks)
{
    job.ranks = 3, job.is_separate = true;
    EXPECT_EQ(run().error, 0);
    job.ranks = 2;
    Outcome outcome = run();
    EXPECT_EQ(outcome.error, -EUCLEAN);
    EXPECT_NE(outcome.text.find("the newest version, 3,"), std::string::npos) << outcome.text;
    EXPECT_NE(outcome.text.find("of rank 0 of 3"), std::string::npos) << outcome.text;
}

// One rank's part has grown: all ranks fail, and their versions stay.
TEST_F(versions, larger_window_of_several_ranks_is_refused_on_all)
{
    for (bool is_separate : {false, true}) {
        job.ranks = 3, job.is_separate = is_separate;
        job.pages = 60;
        EXPECT_EQ(run().committed, 3u);
        job.pages = is_separate ? 61 : 62;
        Outcome outcome = run();
        EXPECT_EQ(outcome.error, -EUCLEAN);
        EXPECT_NE(outcome.text.find("the newest version, 3,"), std::string::npos) << outcome.text;
        job.pages = 60;
        EXPECT_EQ(run().restored, 3u);
    }
}

TEST_F(versions, lost_part_is_refused)
{
    job.ranks = 3, job.is_separate = true;
    EXPECT_EQ(run().error, 0);
    fs::remove_all(directory / "data.1.versions");
    EXPECT_EQ(run().error, -EUCLEAN);
    EXPECT_TRUE(fs::exists(newest_slot(directory / "data.0"))); // and nothing was given up
}

// The other rank's part of that version is in order, and must not be given up.
TEST_F(versions, record_of_one_rank_that_is_damaged_is_refused)
{
    job.ranks = 2;
    EXPECT_EQ(run().error, 0);
    std::string slot = newest_slot(directory / "data");
    flip_byte(slot, VERSIONS_RECORD_AT + 100);
    EXPECT_EQ(run().error, -EUCLEAN);
    flip_byte(slot, VERSIONS_RECORD_AT + 100);
    EXPECT_EQ(run().error, 0);
}

// A disk restored from a backup: one rank's part is of another commit with the same number.
Outcome mix_histories(const Directory &directory, Without without)
{
    auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
    std::string first = directory / "data.0.versions", second = directory / "data.1.versions";
    Job job;
    job.path = directory / "data", job.is_separate = true, job.commits = 1, job.without = without;
    EXPECT_EQ(run_job(job).committed, 1u);
    fs::copy(first, directory / "backup.0", copy);
    fs::copy(second, directory / "backup.1", copy);
    job.seed = 2;
    EXPECT_EQ(run_job(job).committed, 2u);
    fs::copy(second, directory / "later.1", copy);
    fs::copy(directory / "backup.0", first, copy);
    fs::copy(directory / "backup.1", second, copy);
    fs::remove(first + "/rank-0.slot-1");
    fs::remove(second + "/rank-1.slot-1");
    job.seed = 3;
    EXPECT_EQ(run_job(job).committed, 2u);
    fs::copy(directory / "later.1", second, copy);
    job.commits = 0;
    return run_job(job);
}

TEST_F(versions, two_histories_are_not_mixed)
{
    Outcome outcome = mix_histories(directory, Without::nothing);
    EXPECT_EQ(outcome.torn, "");
    EXPECT_EQ(outcome.error, 0) << outcome.text;
    EXPECT_EQ(outcome.restored, 1u);
    EXPECT_NE(outcome.text.find("has a version 2 that other ranks do not have"), std::string::npos)
        << outcome.text;
}

// The test is tested: only the nonce distinguishes them.
TEST_F(versions, without_the_nonce_two_histories_are_mixed)
{
    EXPECT_NE(mix_histories(directory, Without::nonce).torn, "");
}

TEST_F(versions, full_disk_fails_on_all_ranks_and_keeps_the_last_version)
{
    std::string disk = directory / "disk";
    fs::create_directory(disk);
    if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
        GTEST_SKIP() << "mount: " << strerror(errno) << ": needs root";
    job.path = disk + "/data", job.pages = 90, job.commits = 1;
    EXPECT_EQ(run().committed, 1u);
    Outcome full = run();
    EXPECT_EQ(full.error, -ENOSPC);
    EXPECT_EQ(full.restored, 1u);
    EXPECT_NE(full.text.find("make room"), std::string::npos) << full.text;
    mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=4m");
    Outcome after = run();
    EXPECT_EQ(after.restored, 1u);
    EXPECT_EQ(after.committed, 2u);
    umount2(disk.c_str(), MNT_DETACH);
}

// Another rank's mark may exist, so the version cannot be ruled out and the window makes no further
// one. Whether there is another rank decides which version is found.
TEST_F(versions, mark_without_room_ends_the_versions_until_the_window_is_opened_again)
{
    for (uint32_t ranks : {1, 3}) {
        remove_all();
        job.ranks = ranks, job.commits = 1, job.retries = false;
        EXPECT_EQ(run().committed, 1u);
        job.full_rank = int(ranks) - 1;
        Outcome full = run();
        EXPECT_EQ(full.error, -ENOSPC);
        EXPECT_EQ(full.committed, 0u);
        EXPECT_NE(full.text.find("was written, but not marked as complete"), std::string::npos)
            << full.text;
        job.retries = true;
        Outcome again = run();
        uint64_t found = ranks == 1 ? 1 : 2;
        EXPECT_EQ(again.restored, found);
        EXPECT_EQ(again.error, -ENOSPC);
        EXPECT_EQ(again.committed, 0u);
        EXPECT_NE(again.text.find("open the window again"), std::string::npos) << again.text;
        job.full_rank = -1;
        Outcome after = run();
        uint64_t next = ranks == 1 ? 1 : 3;
        EXPECT_EQ(after.restored, next);
        EXPECT_EQ(after.committed, next + 1);
    }
}

} // namespace
