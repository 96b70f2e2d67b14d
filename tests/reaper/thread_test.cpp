// tests/reaper/thread_test.cpp: thread mode: tasks that are threads of their spawner's process.
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <linux/capability.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <vector>

#include "../remote_call/caller.hpp"
#include "guests/threads.h"
#include "fixture.hpp"

using namespace fixture;

using thread_mode = SpaceTest;

namespace
{

// A task in thread mode that reports into this object.
struct Thread {
    struct report report = {};
    int id = -1;
    std::string message;

    explicit Thread(const std::string &scene, const std::function<void(Attr &)> &change = nullptr,
                    int fd = STDERR_FILENO)
    {
        report.fd = fd;
        std::ostringstream address;
        address << std::hex << reinterpret_cast<unsigned long>(&report);
        Spawned spawned = spawn_task({program("threads"), scene, address.str()}, [&](Attr &attr) {
            attr.flags = ONESPACE_SPAWN_THREAD;
            if (change)
                change(attr);
        });
        id = spawned.id;
        message = spawned.message;
    }
    int wait()
    {
        return Spawned{id, ""}.wait();
    }
};

// One that setuid and the like must reach.
std::jthread sleeping_thread()
{
    return std::jthread([](const std::stop_token &stop) {
        while (!stop.stop_requested())
            sleep_ms(1);
    });
}

int threads_of(int pid)
{
    int count = 0;
    for (const auto &entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
        (void)entry;
        count++;
    }
    return count;
}

} // namespace

TEST_F(thread_mode, shares_the_pid_and_keeps_its_globals)
{
    Thread first("returns"), second("wait");
    ASSERT_GT(first.id, 0) << first.message;
    ASSERT_GT(second.id, 0) << second.message;
    EXPECT_EQ(first.wait(), 5 << 8);
    second.report.go = 1;
    EXPECT_EQ(second.wait(), 0);
    EXPECT_EQ(first.report.pid, getpid());
    EXPECT_NE(first.report.tid, gettid());
    EXPECT_EQ(first.report.value, 2);
    EXPECT_EQ(first.report.handlers, 1);
    EXPECT_NE(first.report.global, second.report.global);
    EXPECT_NE(first.report.local, second.report.local);
}

// They are no children of the process, and so not of the root's parent either.
TEST_F(thread_mode, spawns_processes)
{
    Words words = {program("member"), "spawn", program("state"), "exit", "9"};
    EXPECT_EQ(as_task(words, as_thread).status, 0);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), 0) << "only the reaper is a child";
}

TEST_F(thread_mode, shares_descriptors_and_flushes_its_streams)
{
    Pipe pipe;
    Thread thread("returns", nullptr, pipe.write_end.get());
    ASSERT_GT(thread.id, 0) << thread.message;
    EXPECT_EQ(thread.wait(), 5 << 8);
    char text[16] = "";
    ASSERT_EQ(read(pipe.read_end.get(), text, sizeof(text)), 8);
    EXPECT_STREQ(text, "buffered");
}

struct Ending {
    const char *name; // of the scene
    int status, handlers;
};

class thread_end : public SpaceTest, public testing::WithParamInterface<Ending>
{
};

TEST_P(thread_end, ends_that_task_only)
{
    const Ending &ending = GetParam();
    Thread neighbour("wait"), thread(ending.name);
    ASSERT_GT(thread.id, 0) << thread.message;
    EXPECT_EQ(thread.wait(), ending.status);
    EXPECT_EQ(thread.report.handlers, ending.handlers);
    EXPECT_TRUE(eventually([] { return threads_of(getpid()) == 2; })) << threads_of(getpid());
    neighbour.report.go = 1;
    EXPECT_EQ(neighbour.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(ways, thread_end,
                         testing::Values(Ending{"exit", 6 << 8, 1}, Ending{"_exit", 7 << 8, 0},
                                         Ending{"quick_exit", 8 << 8, 0},
                                         Ending{"pthread_exit", 0, 1}, Ending{"workers", 9 << 8, 0},
                                         Ending{"exit-elsewhere", 10 << 8, 0},
                                         Ending{"pthread_exit-first", 0, 0},
                                         Ending{"raw-exit", 0, 0}, Ending{"execute", 11 << 8, 0},
                                         Ending{"children", 12 << 8, 0},
                                         Ending{"setuid", 13 << 8, 0}),
                         by_name);

// The task's other threads have ended when its end is reported, after which their memory is
// unmapped.
static void expect_end_with_all_threads()
{
    Thread thread("workers");
    ASSERT_GT(thread.id, 0) << thread.message;
    EXPECT_EQ(thread.wait(), 9 << 8);
    EXPECT_EQ(threads_of(getpid()), 1);
}

// As for ordinary users before Linux 5.16: CAP_SYS_PTRACE would let the reaper look.
class undumpable_thread_mode : public SpaceTest
{
  protected:
    undumpable_thread_mode()
    {
        setenv("ONESPACE_DUMPABLE", "0", 1);
        set_ptrace(false);
    }
    ~undumpable_thread_mode() override
    {
        set_ptrace(true);
        unsetenv("ONESPACE_DUMPABLE");
    }
    static void set_ptrace(bool is_on)
    {
        __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct data[2];
        ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
        data[0].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
        if (is_on)
            data[0].effective |= data[0].permitted & CAP_TO_MASK(CAP_SYS_PTRACE);
        ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
    }
};

TEST_F(undumpable_thread_mode, task_ends_with_all_of_its_threads)
{
    expect_end_with_all_threads();
    EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0);
}

TEST_F(undumpable_thread_mode, task_ends_after_its_main_thread)
{
    Thread thread("pthread_exit-first");
    ASSERT_GT(thread.id, 0) << thread.message;
    EXPECT_EQ(thread.wait(), 0);
    EXPECT_EQ(thread.report.value, 77);
}

// A limit of few descriptors when the space is made, which the root raises and reaches later.
class thread_mode_of_many_descriptors : public SpaceTest
{
  protected:
    thread_mode_of_many_descriptors()
    {
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
        rlimit low = {64, limit.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    }
    ~thread_mode_of_many_descriptors() override
    {
        for (int fd : opened)
            close(fd);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    rlimit limit;
    std::vector<int> opened;
};

TEST_F(thread_mode_of_many_descriptors, task_ends_with_all_of_its_threads)
{
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < 80; i++)
        opened.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    expect_end_with_all_threads();
}

TEST_F(thread_mode, main_thread_may_leave_first)
{
    Thread thread("pthread_exit-first");
    ASSERT_GT(thread.id, 0);
    EXPECT_EQ(thread.wait(), 0);
    EXPECT_EQ(thread.report.value, 77);
}

// The first call to another task installs a handler of the same signal behind ours.
TEST_F(thread_mode, leaves_the_libcs_use_of_its_signal_to_a_process_that_calls_tasks)
{
    auto other = sleeping_thread();
    Thread thread("wait");
    ASSERT_GT(thread.id, 0) << thread.message;
    caller::Callee callee;
    EXPECT_EQ(callee.call("visit"), 0);
    thread.report.go = 1;
    EXPECT_EQ(thread.wait(), 0);
    EXPECT_EQ(setegid(getegid()), 0); // which `other` must do, too
    callee.kill();
    EXPECT_EQ(callee.wait(), SIGKILL);
    EXPECT_TRUE(eventually([] { return onespace_fini() == 0; }));
    EXPECT_EQ(setegid(getegid()), 0);
    ASSERT_EQ(onespace_init(), 0);
}

TEST_F(thread_mode, keeps_the_libcs_handlers_of_processes_apart)
{
    auto other = sleeping_thread();
    Thread own("wait");
    ASSERT_GT(own.id, 0) << own.message;
    EXPECT_EQ(as_task({program("threads-parent"), "exit", "setegid"}).status, 0);
    EXPECT_EQ(setegid(getegid()), 0);
    own.report.go = 1;
    EXPECT_EQ(own.wait(), 0);
}

TEST_F(thread_mode, execve_is_refused)
{
    Thread thread("execute");
    ASSERT_GT(thread.id, 0);
    EXPECT_EQ(thread.wait(), 11 << 8);
    EXPECT_EQ(thread.report.value, EPERM);
}

TEST_F(thread_mode, blocks_all_signals_but_those_of_faults)
{
    Thread thread("mask");
    ASSERT_GT(thread.id, 0);
    EXPECT_EQ(thread.wait(), 0);
    EXPECT_EQ(thread.report.value, 2);
}

TEST_F(thread_mode, takes_the_signal_mask_it_is_given)
{
    sigset_t none;
    sigemptyset(&none);
    Thread thread("mask", [&](Attr &attr) { attr.signal_mask = &none; });
    ASSERT_GT(thread.id, 0);
    EXPECT_EQ(thread.wait(), 0);
    EXPECT_EQ(thread.report.value, 0);
}

TEST_F(thread_mode, refuses_attributes_of_what_is_shared)
{
    onespace_fd_map map = {0, 5};
    rlimit limits[RLIM_NLIMITS] = {};
    sigset_t set;
    sigemptyset(&set);
    const std::function<void(Attr &)> changes[] = {
        [&](Attr &attr) { attr.fds = &map, attr.fd_count = 1; },
        [&](Attr &attr) { attr.directory = 0; },
        [&](Attr &attr) { attr.umask = 022; },
        [&](Attr &attr) { attr.limits = limits; },
        [&](Attr &attr) { attr.ignored_signals = &set; },
        [&](Attr &attr) { attr.flags |= ONESPACE_SPAWN_CLOSE_FDS; },
        [&](Attr &attr) { attr.flags |= ONESPACE_SPAWN_GROUP; },
        [&](Attr &attr) { attr.flags |= ONESPACE_SPAWN_SESSION; },
        [&](Attr &attr) { attr.flags |= ONESPACE_SPAWN_NO_INTERPOSE; },
    };
    for (const auto &change : changes)
        EXPECT_EQ(Thread("wait", change).id, -EINVAL);
}

TEST_F(thread_mode, can_be_detached_and_killed_by_name_of_the_process)
{
    Thread thread("wait", [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_DETACHED; });
    ASSERT_GT(thread.id, 0);
    EXPECT_EQ(onespace_pid(thread.id), getpid());
    EXPECT_EQ(onespace_kill(thread.id, 0), 0);
    thread.report.go = 1;
    EXPECT_TRUE(eventually([&] { return onespace_kill(thread.id, 0) == -ESRCH; }));
    EXPECT_EQ(onespace_wait(thread.id, nullptr, 0), -ECHILD);
}

TEST_F(thread_mode, a_hundred_at_once_and_the_memory_comes_back)
{
    auto resident = [] {
        std::ifstream statm("/proc/self/statm");
        long size = 0, pages = 0;
        statm >> size >> pages;
        return pages * 4;
    };
    long before = 0;
    for (int round = 0; round < 4; round++) {
        std::vector<std::unique_ptr<Thread>> threads;
        for (int i = 0; i < 100; i++)
            threads.push_back(std::make_unique<Thread>("workers"));
        for (auto &thread : threads) {
            ASSERT_GT(thread->id, 0) << thread->message;
            ASSERT_EQ(thread->wait(), 9 << 8);
        }
        EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
        if (round == 1)
            before = resident();
    }
    EXPECT_TRUE(eventually([] { return threads_of(getpid()) == 1; }));
    EXPECT_TRUE(eventually([&] { return resident() < before + 4096; }));
}

TEST_F(thread_mode, a_crash_takes_the_process)
{
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) { // a space of its own: the fixture's is not the child's
        execl("/proc/self/exe", "task_test", "--gtest_filter=thread_mode_victim.*",
              "--gtest_also_run_disabled_tests", nullptr);
        _exit(99);
    }
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

using thread_mode_victim = SpaceTest;
TEST_F(thread_mode_victim, DISABLED_crashes)
{
    rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    Thread thread("crash");
    thread.wait();
}

TEST_F(thread_mode, a_missing_library_ends_the_task_only)
{
    EXPECT_EQ(spawn_task({program("needs-missing"), "0"}, as_thread).wait(), 127 << 8);
}

TEST_F(thread_mode, tasks_of_a_task_end_with_its_process)
{
    Task parent({program("threads-parent"), "wait"});
    int child = std::stoi(parent.line());
    ASSERT_GT(child, 0);
    EXPECT_EQ(onespace_pid(child), parent.pid());
    parent.kill_and_wait();
    EXPECT_TRUE(eventually([&] { return onespace_pid(child) == -ESRCH; }));
}

TEST_F(thread_mode, refuses_programs_that_need_the_process)
{
    struct {
        std::string program, reason;
    } refused[] = {{"/usr/bin/java", "Java machine"},
                   {program("plain-musl"), "does not use glibc"},
                   {program("plain-static"), "does not use glibc"},
                   {program("nil-go"), "Go program"}};
    for (const auto &[file, reason] : refused) {
        if (access(file.c_str(), X_OK) != 0)
            continue; // its tool is not installed
        Spawned spawned = spawn_task({file}, as_thread);
        EXPECT_EQ(spawned.id, -ENOTSUP) << file;
        EXPECT_NE(spawned.message.find(reason), std::string::npos) << spawned.message;
    }
}
