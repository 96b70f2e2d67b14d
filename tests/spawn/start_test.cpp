// tests/spawn/start_test.cpp: functions in place of main, before the program, and what is passed
// on.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <fstream>

#include "fixture.hpp"

using namespace fixture;

using start = SpaceTest;
using before = SpaceTest;
using spawner = SpaceTest;
using held = SpaceTest;

static auto with_start(const char *function, const void *argument = nullptr)
{
    return [=](Attr &attr) {
        attr.start = function;
        attr.start_argument = const_cast<void *>(argument);
    };
}

static auto with_before(int (*function)(void *), void *argument = nullptr, unsigned flags = 0)
{
    return [=](Attr &attr) {
        attr.before = function;
        attr.before_argument = argument;
        attr.flags |= flags;
    };
}

TEST_F(start, runs_a_function_in_place_of_main)
{
    EXPECT_EQ(as_task({program("plain")}, with_start("begin", "an argument")),
              exits("begun with an argument, counter 6\n", 9));
}

TEST_F(start, runs_a_static_function_with_libc_ready)
{
    EXPECT_EQ(as_task({program("plain")}, with_start("begin_hidden")), exits("at exit\n"));
}

TEST_F(start, runs_a_function_of_a_musl_program)
{
    if (!is_built("plain-musl"))
        GTEST_SKIP() << "needs musl-gcc";
    EXPECT_EQ(as_task({program("plain-musl")}, with_start("begin", "musl")),
              exits("begun with musl, counter 6\n", 9));
}

TEST_F(start, refuses_a_function_that_is_not_there)
{
    for (const char *name : {"no_such_function", "counter" /* a variable */, ""}) {
        Spawned refused = spawn_task({program("plain")}, with_start(name));
        EXPECT_EQ(refused.id, -ENOSYS) << name;
        EXPECT_NE(refused.message.find("has no function " + std::string(name)), std::string::npos)
            << refused.message;
    }
}

TEST_F(start, refuses_a_static_program)
{
    Spawned refused = spawn_task({program("plain-static")}, with_start("begin"));
    EXPECT_EQ(refused.id, -ENOSYS);
    EXPECT_NE(refused.message.find("link it dynamically"), std::string::npos) << refused.message;
}

TEST_F(start, crashes_alone)
{
    void *argument = reinterpret_cast<void *>(16);
    EXPECT_EQ(WTERMSIG(spawn_task({program("plain")}, with_start("begin", argument)).wait()),
              SIGSEGV);
}

// ---- before ----

struct Record {
    int pid = 0, self = 0, result = 0;
    thread_local static int thread_local_word;
    int word = 0;
    std::string text;
};
thread_local int Record::thread_local_word = 17;

static int record_environment(void *argument)
{
    Record *record = static_cast<Record *>(argument);
    record->pid = getpid();
    record->word = Record::thread_local_word;
    record->text =
        std::string(1000, 'x') + std::to_string(1.5 * getpid()); // malloc, vector registers
    errno = ENOTTY;
    return record->result;
}

TEST_F(before, runs_as_the_task_with_the_callers_memory)
{
    Record record;
    Record::thread_local_word = 18;
    Task task({program("state"), "cat"}, with_before(record_environment, &record));
    EXPECT_EQ(record.pid, task.pid());
    EXPECT_NE(record.pid, getpid());
    EXPECT_EQ(record.word, 18) << "its thread-local storage is the caller's";
    EXPECT_EQ(record.text.size(), 1000 + std::to_string(1.5 * record.pid).size());
}

TEST_F(before, runs_on_behalf_of_any_thread)
{
    std::thread([] {
        Record record;
        Record::thread_local_word = 19;
        Task task({program("state"), "cat"}, with_before(record_environment, &record));
        EXPECT_EQ(record.word, 19);
    }).join();
}

TEST_F(before, fails_the_spawn_with_its_result)
{
    Footprint footprint = Footprint::now();
    for (int error : {EBUSY, -EXDEV}) {
        Record record;
        record.result = error;
        Spawned refused =
            spawn_task({program("plain"), "hello"}, with_before(record_environment, &record));
        EXPECT_EQ(refused.id, -abs(error));
        EXPECT_NE(refused.message.find("was refused by the spawner's function"), std::string::npos);
    }
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 0), -ECHILD);
    expect_flat(footprint);
}

static int crash(void *)
{
    raise(SIGKILL);
    return 0;
}

TEST_F(before, fails_the_spawn_when_it_is_killed)
{
    Spawned refused = spawn_task({program("plain"), "hello"}, with_before(crash));
    EXPECT_EQ(refused.id, -EAGAIN);
    EXPECT_NE(refused.message.find("was killed while it started"), std::string::npos)
        << refused.message;
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 0), -ECHILD);
}

static int kill_reaper(void *argument)
{
    *static_cast<int *>(argument) = getpid();
    prctl(PR_SET_PDEATHSIG, 0);
    return kill(getppid(), SIGKILL);
}

static bool is_dead(int pid)
{
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.empty() || text.find(") Z ") != std::string::npos;
}

// However far the spawner has come when it notices.
TEST(spawning, kills_a_task_that_the_reapers_death_has_left)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    int pid = 0;
    int id = spawn_task({"sleep", "1000"}, with_before(kill_reaper, &pid)).id;
    if (id > 0)
        id = onespace_wait(id, nullptr, Patience);
    EXPECT_EQ(id, -EOWNERDEAD);
    ASSERT_GT(pid, 0);
    EXPECT_TRUE(eventually([&] { return is_dead(pid); })) << kill(pid, SIGKILL);
    EXPECT_TRUE(eventually([] { return onespace_fini() == 0; }));
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    EXPECT_EQ(as_task({program("state"), "exit", "3"}).status, 3 << 8);
    EXPECT_EQ(onespace_fini(), 0);
}

// It would go on in memory that becomes another task's.
TEST_F(before, ends_with_the_spawner)
{
    Task maker({program("member"), "hang-before"});
    int child = std::stoi(maker.line());
    EXPECT_FALSE(is_dead(child));
    maker.kill_and_wait();
    EXPECT_TRUE(eventually([&] { return is_dead(child); })) << kill(child, SIGKILL);
}

static int redirect(void *argument)
{
    int fd = *static_cast<int *>(argument); // close-on-exec, and still there
    return dup2(fd, 1) == 1 ? 0 : errno;
}

TEST_F(before, sets_descriptors_before_the_others_are_closed)
{
    int fd = memfd_create("output", MFD_CLOEXEC);
    EXPECT_EQ(spawn_task({program("plain"), "hello"}, with_before(redirect, &fd)).wait(), 3 << 8);
    char text[32] = "";
    EXPECT_EQ(pread(fd, text, sizeof(text) - 1, 0), 8);
    EXPECT_STREQ(text, "hello 6\n");
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC) << "the root's is unchanged";
    close(fd);
}

static int set_signals(void *)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGHUP, [](int) {}); // cannot be kept: the program has not got this function
    return sigprocmask(SIG_BLOCK, &set, nullptr) == 0 ? 0 : errno;
}

static unsigned long mask_of(int pid, const std::string &name)
{
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name + ":"))
            return std::stoul(line.substr(name.size() + 1), nullptr, 16);
    return ~0ul;
}

TEST_F(before, leaves_signals_as_exec_would)
{
    Task task({program("state"), "cat"}, [](Attr &attr) { attr.before = set_signals; });
    EXPECT_EQ(task.line(), "reading");
    EXPECT_EQ(mask_of(task.pid(), "SigBlk"), 1ul << (SIGUSR2 - 1));
    EXPECT_TRUE(mask_of(task.pid(), "SigIgn") & 1ul << (SIGUSR1 - 1));
    EXPECT_FALSE(mask_of(task.pid(), "SigCgt") & 1ul << (SIGHUP - 1));
    EXPECT_NE(signal(SIGUSR1, SIG_DFL), SIG_IGN) << "the root's are unchanged";
}

// ---- what is passed on ----

TEST_F(spawner, is_known_to_the_task_with_what_it_passed_on)
{
    int word = 42;
    EXPECT_EQ(as_task({program("member"), "spawner"}, [&](Attr &attr) { attr.data = &word; }),
              exits("spawner 0 data 42\n"));
    EXPECT_EQ(as_task({program("member"), "spawner"}), exits("spawner 0 data none\n"));
}

TEST_F(spawner, of_the_root_is_nobody)
{
    void *data = this;
    EXPECT_EQ(onespace_spawner(&data), -ENOENT);
    EXPECT_EQ(data, this);
}

TEST(outside, has_no_spawner)
{
    EXPECT_EQ(onespace_spawner(nullptr), -EPERM);
}

// Address of a variable of the task's, as it tells it.
static volatile int *counter_of(Task &task)
{
    void *address = nullptr;
    EXPECT_EQ(onespace_lookup(task.id(), "counter", &address, nullptr), 0);
    return static_cast<volatile int *>(address);
}

TEST_F(held, memory_outlives_the_task_until_released)
{
    Task task({program("plain"), "wait"}, [](Attr &attr) { attr.flags = ONESPACE_SPAWN_HOLD; });
    volatile int *counter = counter_of(task); // right after the spawn: waits for the libraries
    ASSERT_NE(counter, nullptr);
    EXPECT_EQ(task.finish(), exits("waiting\n"));
    sleep_ms(20);
    EXPECT_EQ(*counter, 5);
    int id = task.id();
    EXPECT_EQ(onespace_release(id), 0);
    EXPECT_EQ(onespace_release(id), -EINVAL);
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

TEST_F(held, nothing_when_the_spawn_fails)
{
    Record record;
    record.result = EBUSY;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(spawn_task({program("plain"), "hello"},
                             with_before(record_environment, &record, ONESPACE_SPAWN_HOLD))
                      .id,
                  -EBUSY);
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

// Exports a number and ends.
static int exporter()
{
    Spawned task = spawn_task({program("member"), "export-and-end"},
                              [](Attr &attr) { attr.flags = ONESPACE_SPAWN_HOLD; });
    EXPECT_EQ(task.wait(), 0);
    return task.id;
}

TEST_F(held, names_can_be_imported_after_the_end)
{
    int id = exporter();
    void *address = nullptr;
    ASSERT_EQ(onespace_import(id, "number", &address, nullptr, -1), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(onespace_import(id, "another", &address, nullptr, -1), -EOWNERDEAD);
    EXPECT_EQ(onespace_release(id), 0);
    EXPECT_EQ(onespace_release(id), 0);
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
    // The reaper frees the slot right after it has unmapped the memory.
    EXPECT_TRUE(
        eventually([&] { return onespace_import(id, "number", &address, nullptr, -1) == -ESRCH; }));
}

TEST_F(held, names_go_with_the_memory)
{
    for (int i = 0; i < 3; i++) {
        int id = exporter();
        EXPECT_EQ(onespace_release(id), 0);
        void *address;
        EXPECT_TRUE(eventually([&] {
            int result = onespace_import(id, "number", &address, nullptr, 0);
            return result == 0 ? onespace_release(id) != 0 : result == -ESRCH;
        }));
    }
}

TEST_F(held, names_of_a_task_that_left_are_gone)
{
    Task task({program("member"), "export-and-exec", "cat"},
              [](Attr &attr) { attr.flags = ONESPACE_SPAWN_HOLD; });
    void *address = nullptr;
    ASSERT_EQ(onespace_import(task.id(), "number", &address, nullptr, Patience), 0);
    EXPECT_EQ(onespace_release(task.id()), 0);
    task.write_line("go");
    EXPECT_TRUE(eventually(
        [&] { return onespace_import(task.id(), "number", &address, nullptr, 0) == -EOWNERDEAD; }));
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(onespace_release(task.id()), 0);
}
