// tests/kernels/places_test.cpp: what the kernel keeps once per address space, or does by walking
// over the processes that share one, while many tasks use it, end and are killed: each task ends
// with its own status, and nothing is left.
#include <fcntl.h>
#include <sys/file.h>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

namespace
{

constexpr int Not_allowed = 77 << 8;

Words places(const std::string &what, const std::string &argument = "",
             const std::string &more = "")
{
    Words words = {program("kernel-places"), what};
    if (!argument.empty())
        words.push_back(argument);
    if (!more.empty())
        words.push_back(more);
    return words;
}

// More tasks than CPUs.
int more_than_cpus()
{
    return static_cast<int>(std::min(sysconf(_SC_NPROCESSORS_ONLN), 16L)) * 3 + 1;
}

// Two runs of these tests at once change settings one after the other.
const int settings_lock = open("/proc/sys/kernel/pid_max", O_RDONLY | O_CLOEXEC);
int settings_changed = 0;

// A setting of the machine, changed while this lives.
class Setting
{
  public:
    Setting(const std::string &path, const std::string &value) : path_(path)
    {
        if (settings_changed++ == 0)
            flock(settings_lock, LOCK_EX);
        std::ifstream(path_) >> before_;
        is_set_ = !before_.empty() && write(value);
    }
    ~Setting()
    {
        if (is_set_)
            write(before_);
        if (--settings_changed == 0)
            flock(settings_lock, LOCK_UN);
    }
    bool is_set() const
    {
        return is_set_;
    }

  private:
    bool write(const std::string &value)
    {
        std::ofstream file(path_);
        file << value << std::flush;
        return file.good();
    }
    std::string path_, before_;
    bool is_set_;
};

long read_long(const std::string &path)
{
    long value = -1;
    std::ifstream(path) >> value;
    return value;
}

} // namespace

class kernel_places : public SpaceTest
{
  protected:
    void SetUp() override
    {
        SpaceTest::SetUp();
        if (HasFatalFailure())
            return;
        for (int i = 0; i < 4; i++) // what is made once is there
            EXPECT_EQ(as_task({"true"}).status, 0);
        EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
        before_ = Footprint::now();
    }
    void expect_nothing_left()
    {
        EXPECT_TRUE(eventually([] { return probe_slots() == 0; }));
        EXPECT_EQ(probe_holds(), 0);
        expect_flat(before_, 4);
    }
    // Runs as many at once, which must all end with 0. False if the kernel does not allow it.
    bool run_at_once(const Words &words, int count)
    {
        std::vector<Task> tasks;
        for (int i = 0; i < count; i++)
            tasks.emplace_back(words);
        bool is_allowed = true;
        for (Task &task : tasks) {
            Outcome outcome = task.finish();
            is_allowed &= outcome.status != Not_allowed;
            EXPECT_TRUE(outcome.status == 0 || outcome.status == Not_allowed) << outcome;
        }
        return is_allowed;
    }
    // As many as there may be, each of which has said that it is at work.
    static void kill_all_at_once(const Words &words, const std::string &says)
    {
        std::vector<Task> tasks;
        for (int i = 0; i < more_than_cpus(); i++)
            tasks.emplace_back(words);
        for (Task &task : tasks)
            EXPECT_EQ(task.line(), says);
        for (Task &task : tasks)
            task.kill();
        for (Task &task : tasks)
            EXPECT_EQ(task.wait(), SIGKILL);
    }
    Footprint before_;
};

// Concurrency ids (mm_cid) move from tasks to CPUs when there are more tasks than CPUs.
TEST_F(kernel_places, more_tasks_than_cpus_that_all_clone)
{
    for (int round = 0; round < (want_long() ? 20 : 2); round++) {
        std::vector<Task> tasks;
        for (int i = 0; i < more_than_cpus(); i++)
            tasks.emplace_back(places("clone", "500", std::to_string(i + 1)));
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(as_task({"true"}).status, 0);
        for (size_t i = 0; i < tasks.size(); i++)
            EXPECT_EQ(tasks[i].finish(), exits("cloning\n", static_cast<int>(i) + 1));
    }
    expect_nothing_left();
}

TEST_F(kernel_places, more_tasks_than_cpus_killed_while_they_clone)
{
    for (int round = 0; round < (want_long() ? 100 : 5); round++)
        kill_all_at_once(places("clone", "600000", "1"), "cloning");
    expect_nothing_left();
}

TEST_F(kernel_places, membarrier_reaches_all_threads)
{
    if (!run_at_once(places("membarrier", "700"), more_than_cpus()))
        GTEST_SKIP() << "this kernel has no membarrier";
    expect_nothing_left();
}

// The kernel registers the memory: the root and later tasks are registered by what one task did.
TEST_F(kernel_places, membarrier_is_registered_for_all)
{
    constexpr int Private_expedited = 1 << 3;
    EXPECT_EQ(syscall(SYS_membarrier, Private_expedited, 0, 0), -1);
    Outcome outcome = as_task(places("register"));
    if (outcome.status == Not_allowed)
        GTEST_SKIP() << "this kernel has no membarrier";
    EXPECT_EQ(outcome, exits(""));
    EXPECT_EQ(syscall(SYS_membarrier, Private_expedited, 0, 0), 0);
}

// The breakpoint is put into each task's copy of the file, and the instruction below it is executed
// in a page that all share.
TEST_F(kernel_places, uprobes_count_each_tasks_calls)
{
    if (!run_at_once(places("probe", "2000"), more_than_cpus()))
        GTEST_SKIP() << "uprobes are not permitted here";
    kill_all_at_once(places("probe", "1000000000"), "probed");
    expect_nothing_left();
}

TEST_F(kernel_places, ksm_merges_pages_of_all_and_parts_them_again)
{
    const std::string ksm = "/sys/kernel/mm/ksm/";
    Setting wait(ksm + "sleep_millisecs", "1"), pages(ksm + "pages_to_scan", "20000"),
        run(ksm + "run", "1");
    if (!run.is_set())
        GTEST_SKIP() << "KSM cannot be switched on here";
    {
        std::vector<Task> tasks;
        for (int i = 0; i < more_than_cpus(); i++)
            tasks.emplace_back(places("merge", "64"));
        for (Task &task : tasks)
            EXPECT_EQ(task.line(), "mergeable");
        EXPECT_TRUE(eventually([&] { return read_long(ksm + "pages_sharing") >= 64; }));
        tasks[0].kill(); // with pages that others have, too
        EXPECT_EQ(tasks[0].wait(), SIGKILL);
        for (size_t i = 1; i < tasks.size(); i++)
            tasks[i].write_line("change");
        for (size_t i = 1; i < tasks.size(); i++)
            EXPECT_EQ(tasks[i].finish(), exits(""));
    }
    expect_nothing_left();
}

TEST_F(kernel_places, huge_pages_are_made_and_taken_apart)
{
    const std::string khugepaged = "/sys/kernel/mm/transparent_hugepage/khugepaged/";
    Setting wait(khugepaged + "scan_sleep_millisecs", "1"),
        pages(khugepaged + "pages_to_scan", "20000");
    if (!run_at_once(places("collapse", "700"), more_than_cpus()))
        GTEST_SKIP() << "this system gives no transparent huge pages";
    expect_nothing_left();
}

// Where there is one node the pages stay where they are, but the kernel walks over them all the
// same.
TEST_F(kernel_places, pages_are_moved_between_nodes)
{
    Setting balancing("/proc/sys/kernel/numa_balancing", "1");
    if (!run_at_once(places("balance", "700"), more_than_cpus()))
        GTEST_SKIP() << "memory policies are not permitted here";
    expect_nothing_left();
}

// liburing maps its rings by instructions of its own, which are not interposed, and they stay
// (docs/memory.md); these are mapped by the libc.
TEST_F(kernel_places, rings_are_killed_with_requests_in_flight)
{
    if (as_task(places("ring", "1")).status == Not_allowed)
        GTEST_SKIP() << "io_uring is not permitted here";
    for (int round = 0; round < (want_long() ? 100 : 5); round++)
        kill_all_at_once(places("ring", "1000000000"), "started");
    expect_nothing_left();
}

// The kernel destroys a context with the memory, and the space does when its task has ended: its
// ring is a mapping, outside of the task's range.
TEST_F(kernel_places, contexts_of_asynchronous_io_end_with_their_tasks)
{
    std::string file = testing::TempDir() + "onespace-aio." + std::to_string(getpid());
    std::ofstream(file) << std::string(1 << 20, 'x');
    Outcome outcome = as_task(places("aio-end", file));
    if (outcome.status == Not_allowed)
        GTEST_SKIP() << "this kernel has no asynchronous I/O";
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(as_task(places("aio-end", file)), exits("reading\n"));
    for (int round = 0; round < (want_long() ? 100 : 5); round++)
        kill_all_at_once(places("aio", file), "reading");
    EXPECT_EQ(as_task(places("aio-destroy", file)), exits("reading\n"));
    std::filesystem::remove(file);
    expect_nothing_left();
}

// Where a context's name was destroyed unseen, by an instruction that is not interposed, the kernel
// gives it to another task, whose context stays.
TEST_F(kernel_places, context_under_a_name_that_was_another_tasks_stays)
{
    std::string file = testing::TempDir() + "onespace-aio-name." + std::to_string(getpid());
    std::ofstream(file) << std::string(1 << 20, 'x');
    {
        Task first(places("aio-unseen", file));
        std::string name = first.line();
        if (name.empty()) {
            EXPECT_EQ(first.finish().status, Not_allowed);
            GTEST_SKIP() << "this kernel has no asynchronous I/O";
        }
        Task second(places("aio-named", file));
        EXPECT_EQ(second.line(), name);
        first.kill_and_wait();
        EXPECT_TRUE(eventually([] { return probe_slots() == 1; }));
        second.write_line("");
        EXPECT_EQ(second.finish(), exits("reading\n"));
    }
    std::filesystem::remove(file);
    expect_nothing_left();
}

// TSYNC is for the threads of one process, which a task is.
TEST_F(kernel_places, a_filter_for_all_threads_is_one_tasks)
{
    const pid_t parent = getppid();
    {
        Task filtered(places("synchronise"));
        std::string line = filtered.line();
        if (line != "filtered") {
            EXPECT_EQ(filtered.finish().status, Not_allowed) << line;
            GTEST_SKIP() << "not possible here: filters";
        }
        EXPECT_EQ(syscall(SYS_getppid), parent);
        EXPECT_EQ(as_task(places("unfiltered")), exits(""));
        filtered.write_line("");
        EXPECT_EQ(filtered.finish(), exits(""));
    }
    expect_nothing_left();
}

// The fields act for all (docs/programs.md): what is in the memory of a task that has ended is not
// read any more, and nothing else changes.
TEST_F(kernel_places, arguments_that_a_task_moves_harm_nobody)
{
    const Words own_line = {"sh", "-c",
                            "cat /proc/self/cmdline; read line </proc/self/cmdline; echo $line"};
    for (int i = 0; i < 3; i++) {
        Outcome outcome = as_task(places("arguments"));
        if (outcome.status == Not_allowed)
            GTEST_SKIP() << "not possible here: PR_SET_MM";
        EXPECT_EQ(outcome, exits(""));
        std::ifstream line("/proc/self/cmdline");
        EXPECT_EQ(std::string(std::istreambuf_iterator<char>(line), {}).find("renamed"),
                  std::string::npos);
        EXPECT_EQ(as_task(own_line), as_process(own_line));
    }
    expect_nothing_left();
}

// Since Linux 5.16 a core dump ends the threads of one process, not all that share its memory.
TEST_F(kernel_places, several_tasks_dump_core_at_once)
{
    std::string directory = testing::TempDir() + "onespace-cores." + std::to_string(getpid());
    std::filesystem::create_directory(directory);
    Setting filter("/proc/self/coredump_filter",
                   "0"); // all memory is one task's: cores would be large
    {
        Task other(places("clone", "600000", "1"));
        std::vector<Task> tasks;
        for (int i = 0; i < more_than_cpus(); i++)
            tasks.emplace_back(places("crash", directory));
        for (Task &task : tasks)
            EXPECT_EQ(task.line(), "ready");
        for (Task &task : tasks)
            task.write_line("");
        for (Task &task : tasks)
            EXPECT_EQ(task.wait() & 0x7f, SIGABRT);
        EXPECT_FALSE(has_ended(other.id()));
        EXPECT_EQ(as_task({"true"}).status, 0);
        other.kill_and_wait();
    }
    std::filesystem::remove_all(directory);
    expect_nothing_left();
}
