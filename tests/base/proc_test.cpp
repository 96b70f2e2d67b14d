// tests/base/proc_test.cpp: /proc/PID/stat, /proc/PID/maps, and directories whose entries are
// numbers.
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "base/proc.h"
}

namespace
{

void collect(void *context, int number, int)
{
    static_cast<std::set<int> *>(context)->insert(number);
}

// The mapping that holds the address, found with a buffer of that many bytes; its name in *name.
proc_mapping find_mapping(const void *address, size_t capacity, std::string *name = nullptr)
{
    std::string buffer(capacity, 0);
    proc_maps maps;
    proc_mapping mapping, found = {};
    EXPECT_EQ(proc_maps_open(&maps, 0, buffer.data(), capacity), 0);
    while (proc_maps_next(&maps, &mapping))
        if (uintptr_t(address) >= mapping.start && uintptr_t(address) < mapping.end) {
            found = mapping;
            if (name)
                *name = mapping.name;
        }
    proc_maps_close(&maps);
    return found;
}

} // namespace

TEST(proc_stat, describes_the_caller)
{
    proc_stat stat;
    ASSERT_EQ(proc_read_stat(getpid(), &stat), 0);
    EXPECT_EQ(stat.state, 'R');
    EXPECT_EQ(stat.parent, getppid());
    EXPECT_GT(stat.start_ticks, 0u);
}

TEST(proc_stat, name_may_contain_parentheses_and_blanks)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, ") R 7 (x y)");
        raise(SIGSTOP);
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, WUNTRACED), child);
    proc_stat stat;
    ASSERT_EQ(proc_read_stat(child, &stat), 0);
    EXPECT_STREQ(stat.name, ") R 7 (x y)");
    EXPECT_EQ(stat.state, 'T');
    EXPECT_EQ(stat.parent, getpid());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

TEST(proc_stat, zombie_is_found_until_it_is_reaped)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
    proc_stat stat;
    ASSERT_EQ(proc_read_stat(child, &stat), 0);
    EXPECT_EQ(stat.state, 'Z');
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(proc_read_stat(child, &stat), -ENOENT);
}

TEST(proc_stat, cpu_time_grows)
{
    proc_stat before, after;
    ASSERT_EQ(proc_read_stat(getpid(), &before), 0);
    do
        ASSERT_EQ(proc_read_stat(getpid(), &after), 0);
    while (after.user_ticks + after.system_ticks == before.user_ticks + before.system_ticks);
    EXPECT_EQ(after.start_ticks, before.start_ticks);
}

TEST(proc_maps, every_line_is_parsed_whatever_the_size_of_the_buffer)
{
    void *pages = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t capacity : {64, 100, 512, 1 << 20}) {
        proc_mapping found = find_mapping(pages, capacity);
        EXPECT_LE(found.start, uintptr_t(pages)) << capacity;
        EXPECT_STREQ(found.permissions, "r--p") << capacity;
    }
    munmap(pages, 4096);
}

TEST(proc_maps, name_of_a_file_is_that_of_the_mapping)
{
    std::string name;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    proc_mapping found = find_mapping(page, 4096, &name);
    EXPECT_EQ(found.offset, 4096u);
    EXPECT_STREQ(found.permissions, "r--s");
    char path[4096] = "";
    ASSERT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
    EXPECT_EQ(name, path);
    munmap(page, 4096);
    close(fd);
}

TEST(proc_maps, fields_of_smaps_are_no_mappings)
{
    proc_mapping mapping;
    EXPECT_FALSE(proc_parse_mapping("Rss:                   4 kB", &mapping));
    EXPECT_FALSE(proc_parse_mapping("", &mapping));
    EXPECT_TRUE(proc_parse_mapping("7f00-7f01 rw-p 00001000 00:00 0 ", &mapping));
    EXPECT_EQ(mapping.start, 0x7f00u);
    EXPECT_EQ(mapping.end, 0x7f01u);
    EXPECT_STREQ(mapping.name, "");
}

TEST(proc_maps, process_that_is_not_there_is_an_error)
{
    char buffer[512];
    proc_maps maps;
    EXPECT_EQ(proc_maps_open(&maps, INT32_MAX, buffer, sizeof(buffer)), -ENOENT);
}

TEST(proc_each_number, visits_every_open_descriptor)
{
    int high = fcntl(0, F_DUPFD_CLOEXEC, 300);
    ASSERT_GE(high, 300);
    std::set<int> found;
    ASSERT_EQ(proc_each_number("/proc/self/fd", collect, &found), 0);
    EXPECT_TRUE(found.count(0) && found.count(1) && found.count(high));
    close(high);
}

TEST(proc_each_number, visits_more_entries_than_one_read_returns)
{
    std::set<int> opened, found;
    for (int i = 0; i < 500; i++)
        opened.insert(dup(0));
    ASSERT_EQ(proc_each_number("/proc/self/fd", collect, &found), 0);
    for (int fd : opened) {
        EXPECT_TRUE(found.count(fd)) << fd;
        close(fd);
    }
}

TEST(proc_each_number, missing_directory_is_an_error)
{
    std::set<int> found;
    EXPECT_EQ(proc_each_number("/proc/self/none", collect, &found), -ENOENT);
    EXPECT_TRUE(found.empty());
}
