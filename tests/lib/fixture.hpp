// tests/lib/fixture.hpp: a space per test, and guests that run in it as tasks or beside it as
// processes.
#ifndef ONESPACE_TESTS_LIB_FIXTURE_HPP
#define ONESPACE_TESTS_LIB_FIXTURE_HPP

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "../lib/long.hpp"
#include "onespace.h"
#include "space/layout.h"

extern char **environ;

namespace fixture
{

using Words = std::vector<std::string>;
using Attr = onespace_spawn_attr;

constexpr int Patience = 120000; // ms; longer than anything here takes

// The path of a guest of tests/programs.
inline std::string program(const std::string &name)
{
    return std::string(ONESPACE_TEST_PROGRAMS "/") + name;
}

// False where its compiler is missing.
inline bool is_built(const std::string &name)
{
    return access(program(name).c_str(), X_OK) == 0;
}

inline std::vector<char *> pointers(const Words &words)
{
    std::vector<char *> result;
    for (const std::string &word : words)
        result.push_back(const_cast<char *>(word.c_str()));
    result.push_back(nullptr);
    return result;
}

inline void sleep_ms(int ms)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// Asks until the condition holds, or `ms` have passed.
inline bool eventually(const std::function<bool()> &condition, int ms = Patience)
{
    for (auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
         std::chrono::steady_clock::now() < end; sleep_ms(1))
        if (condition())
            return true;
    return condition();
}

// Whether the task has ended, collected or not.
inline bool has_ended(int id)
{
    const uint32_t *word = onespace_watch(id);
    return !word || __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
}

class Descriptor
{
  public:
    explicit Descriptor(int fd = -1) : fd_(fd)
    {
    }
    Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1))
    {
    }
    Descriptor &operator=(Descriptor &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor()
    {
        reset();
    }
    void reset()
    {
        if (fd_ >= 0)
            close(std::exchange(fd_, -1));
    }
    int get() const
    {
        return fd_;
    }

  private:
    int fd_;
};

struct Pipe {
    Pipe()
    {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0)
            throw std::system_error(errno, std::generic_category(), "pipe2");
        read_end = Descriptor(fds[0]);
        write_end = Descriptor(fds[1]);
    }
    Descriptor read_end, write_end;
};

// A line of text, or the part of it that came before the end of file or of Patience.
inline std::string read_line(int fd)
{
    std::string line;
    for (char byte; line.empty() || line.back() != '\n'; line += byte) {
        pollfd ready = {fd, POLLIN, 0};
        if (poll(&ready, 1, Patience) != 1 || read(fd, &byte, 1) != 1)
            break;
    }
    if (!line.empty() && line.back() == '\n')
        line.pop_back();
    return line;
}

inline std::string read_all(int fd)
{
    std::string text;
    char bytes[4096];
    for (ssize_t size; (size = read(fd, bytes, sizeof(bytes))) > 0;)
        text.append(bytes, static_cast<size_t>(size));
    return text;
}

// The output of a guest (standard output and error) and how it ended.
struct Outcome {
    std::string output;
    int status = -1;
    bool operator==(const Outcome &) const = default;
};

inline std::ostream &operator<<(std::ostream &stream, const Outcome &outcome)
{
    stream << '"' << outcome.output << "\" and ";
    if (WIFEXITED(outcome.status))
        return stream << "exit status " << WEXITSTATUS(outcome.status);
    return stream << "signal " << WTERMSIG(outcome.status);
}

inline Outcome exits(const std::string &output, int code = 0)
{
    return {output, code << 8};
}

// Restores a limit at the end of the test.
class Limit
{
  public:
    Limit(__rlimit_resource_t kind, rlim_t soft) : kind_(kind)
    {
        EXPECT_EQ(getrlimit(kind, &before_), 0);
        rlimit changed = {soft, before_.rlim_max};
        EXPECT_EQ(setrlimit(kind, &changed), 0);
    }
    Limit(const Limit &) = delete;
    ~Limit()
    {
        EXPECT_EQ(setrlimit(kind_, &before_), 0);
    }

  private:
    __rlimit_resource_t kind_;
    rlimit before_ = {};
};

using Limits = std::array<rlimit, RLIM_NLIMITS>;

inline Limits all_limits()
{
    Limits limits;
    for (size_t i = 0; i < limits.size(); i++)
        EXPECT_EQ(getrlimit(static_cast<__rlimit_resource_t>(i), &limits[i]), 0);
    return limits;
}

// What onespace_spawn gave for a program: the task's id, or -errno and the message.
struct Spawned {
    int id;
    std::string message;
    // The wait status, or -errno.
    int wait() const
    {
        onespace_status status = {};
        int result = onespace_wait(id, &status, Patience);
        return result == id ? status.status : result;
    }
};

// Spawns a task with this process's descriptors.
inline Spawned spawn_task(const Words &words, const std::function<void(Attr &)> &change = nullptr,
                          char *const *environment = nullptr)
{
    char message[1024] = "";
    Attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.message = message;
    attr.message_size = sizeof(message);
    if (change)
        change(attr);
    std::vector<char *> argv = pointers(words);
    int id = onespace_spawn(argv[0], argv.data(), environment, &attr);
    return {id, message};
}

inline void as_thread(Attr &attr)
{
    attr.flags |= ONESPACE_SPAWN_THREAD;
    attr.fds = nullptr; // threads share descriptors
    attr.fd_count = 0;
}

// A task with pipes at its standard input and output. One that the test has not waited for is
// finished at its end, and must succeed.
class Task
{
  public:
    explicit Task(const Words &words, const std::function<void(Attr &)> &change = nullptr)
    {
        onespace_fd_map fds[] = {
            {in_.read_end.get(), 0}, {out_.write_end.get(), 1}, {out_.write_end.get(), 2}};
        Spawned spawned = spawn_task(words, [&](Attr &attr) {
            attr.fds = fds;
            attr.fd_count = 3;
            if (change)
                change(attr);
        });
        id_ = spawned.id;
        if (id_ < 0) // gtest reports it as the test's failure
            throw std::runtime_error(words[0] + ": " + strerror(-id_) + ": " + spawned.message);
        in_.read_end.reset();
        out_.write_end.reset();
    }
    Task(Task &&other) noexcept
        : in_(std::move(other.in_)), out_(std::move(other.out_)), id_(std::exchange(other.id_, -1))
    {
    }
    ~Task()
    {
        onespace_status status = {};
        close_input();
        int result = id_ > 0 ? onespace_wait(id_, &status, 0) : -ECHILD;
        if (result == -ETIMEDOUT) { // it may wait until its output is read
            read_all(out_.read_end.get());
            result = onespace_wait(id_, &status, Patience);
        }
        EXPECT_NE(result, -ETIMEDOUT);
        EXPECT_EQ(status.status, 0);
    }

    int id() const
    {
        return id_;
    }
    int pid() const
    {
        return onespace_pid(id_);
    }
    std::string line()
    {
        return read_line(out_.read_end.get());
    }
    void write_line(const std::string &text)
    {
        std::string line = text + "\n";
        EXPECT_EQ(write(in_.write_end.get(), line.data(), line.size()),
                  static_cast<ssize_t>(line.size()));
    }
    void close_input()
    {
        in_.write_end.reset();
    }
    void kill(int signal = SIGKILL)
    {
        EXPECT_EQ(onespace_kill(id_, signal), 0);
    }
    void kill_and_wait()
    {
        kill();
        EXPECT_EQ(wait(), SIGKILL);
    }
    // The wait status, or -errno.
    int wait(onespace_status *status = nullptr)
    {
        onespace_status mine = {};
        int result = onespace_wait(id_, &mine, Patience);
        if (status)
            *status = mine;
        return result == id_ ? mine.status : result;
    }
    // Ends its input, reads its output to the end and waits for it.
    Outcome finish()
    {
        close_input();
        std::string output = read_all(out_.read_end.get());
        return {output, wait()};
    }

  private:
    Pipe in_, out_;
    int id_;
};

inline Outcome as_task(const Words &words, const std::function<void(Attr &)> &change = nullptr)
{
    return Task(words, change).finish();
}

// The same program as a plain process.
class Process
{
  public:
    explicit Process(const Words &words)
    {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in_.read_end.get(), 0);
        posix_spawn_file_actions_adddup2(&actions, out_.write_end.get(), 1);
        posix_spawn_file_actions_adddup2(&actions, out_.write_end.get(), 2);
        int result = posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr,
                                  pointers(words).data(), environ);
        EXPECT_EQ(result, 0) << words[0];
        posix_spawn_file_actions_destroy(&actions);
        in_.read_end.reset();
        out_.write_end.reset();
    }
    int pid() const
    {
        return pid_;
    }
    std::string line()
    {
        return read_line(out_.read_end.get());
    }
    Outcome finish()
    {
        in_.write_end.reset();
        Outcome outcome = {read_all(out_.read_end.get()), -1};
        EXPECT_EQ(waitpid(pid_, &outcome.status, 0), pid_);
        outcome.status &= ~0x80; // whether a core was dumped
        return outcome;
    }

  private:
    Pipe in_, out_;
    pid_t pid_ = -1;
};

inline Outcome as_process(const Words &words)
{
    return Process(words).finish();
}

// Runs the program as a process and as a task, which must do the same; returns what it did.
inline Outcome expect_same(const Words &words)
{
    Outcome process = as_process(words);
    EXPECT_EQ(as_task(words), process);
    return process;
}

inline void expect_same(const Words &words, const Outcome &outcome)
{
    EXPECT_EQ(expect_same(words), outcome);
}

inline std::string name_of(const char *name)
{
    return name;
}

template <typename Parameter> std::string name_of(const Parameter &parameter)
{
    return parameter.name;
}

// The last argument of INSTANTIATE_TEST_SUITE_P: names each test after its parameter, which is a
// string or has a name.
inline constexpr auto by_name = [](const auto &info) {
    std::string name = name_of(info.param);
    for (char &letter : name)
        letter = isalnum(letter) ? letter : '_';
    return name;
};

// The figures that must not grow: the memory map, descriptors, resident memory. Without the
// registry, which gets a few resident pages with the first task of each slot, and without the files
// of the patched ld.so, which the first task of a kind makes.
struct Footprint {
    std::vector<std::string> mappings;
    int task_mappings = 0, descriptors = 0;
    long resident_kib = 0;
    static Footprint now()
    {
        Footprint result;
        bool is_registry = false;
        std::ifstream maps("/proc/self/smaps");
        for (std::string line; std::getline(maps, line);) {
            if (line.starts_with("Rss:")) {
                result.resident_kib += is_registry ? 0 : std::stol(line.substr(4));
            } else if (!isupper(line[0])) {
                uintptr_t start = std::stoull(line, nullptr, 16);
                if (start >= LAYOUT_REAPER && start < LAYOUT_CACHE)
                    continue; // stacks, of which the reaper makes some after onespace_init
                unsigned slot = layout_slot_of(start);
                result.task_mappings += slot != 0 && slot != LAYOUT_SLOTS;
                is_registry = line.find("onespace-space") != std::string::npos;
                result.mappings.push_back(line);
            }
        }
        for (auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            std::error_code ended; // the iterator's own, when it is looked at
            auto target = std::filesystem::read_symlink(entry, ended).string();
            result.descriptors += target.find("onespace-loader") == std::string::npos;
        }
        return result;
    }
};

// The mappings that are new.
inline std::string added_mappings(const Footprint &before, const Footprint &after)
{
    std::string text;
    for (const std::string &line : after.mappings)
        if (std::find(before.mappings.begin(), before.mappings.end(), line) ==
            before.mappings.end())
            text += line + "\n";
    return text;
}

// No more than before, but for what the root's own heap may have taken; `more_kib` with pages of 4
// KiB. The reaper unmaps after the status can be collected, hence the patience.
inline void expect_flat(const Footprint &before, unsigned more_mappings = 2, long more_kib = 1024)
{
    Footprint after;
    more_kib *= sysconf(_SC_PAGESIZE) / 4096;
    EXPECT_TRUE(eventually([&] {
        after = Footprint::now();
        return after.task_mappings <= before.task_mappings &&
               after.mappings.size() <= before.mappings.size() + more_mappings &&
               after.descriptors == before.descriptors &&
               after.resident_kib <= before.resident_kib + more_kib;
    })) << "before and after: "
        << before.mappings.size() << " and " << after.mappings.size() << " mappings, "
        << before.descriptors << " and " << after.descriptors << " descriptors, "
        << before.resident_kib << " and " << after.resident_kib << " KiB resident; new are\n"
        << added_mappings(before, after);
}

class SpaceTest : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        signal(SIGPIPE, SIG_IGN); // a guest that died early fails the test and does not end it
        ASSERT_EQ(onespace_init(), 0);
    }
    void TearDown() override
    {
        // Killed tasks may take a moment to go.
        EXPECT_TRUE(eventually([] { return onespace_fini() != -EBUSY; })) << "tasks are left";
    }
};

// One guest in several builds, that of musl among them.
class BuildsTest : public SpaceTest, public testing::WithParamInterface<const char *>
{
  protected:
    void SetUp() override
    {
        if (!is_built(GetParam()))
            GTEST_SKIP() << "needs musl-gcc";
        SpaceTest::SetUp();
    }
};

} // namespace fixture

#endif
