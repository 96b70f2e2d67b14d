// tests/api/wait_test.cpp: the ends of tasks: waiting, killing, watching, and who gets which
// child.
#include <linux/futex.h>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

using wait_for = SpaceTest;
using reaping = SpaceTest;
using kill_task = SpaceTest;
using watch = SpaceTest;

static const Words Sleeper = {program("state"), "sleep", "600000"}; // longer than a test takes

static Task sleeper(const Words &words = Sleeper)
{
    Task task(words);
    EXPECT_EQ(task.line(), "sleeping");
    return task;
}

TEST_F(wait_for, gives_a_status_out_once)
{
    Task task({program("state"), "exit", "3"});
    EXPECT_EQ(task.wait(), 3 << 8);
    EXPECT_EQ(onespace_wait(task.id(), nullptr, Patience), -ECHILD);
}

TEST_F(wait_for, tells_exit_from_the_system_call)
{
    for (auto [name, by_exit] :
         {std::pair{"plain", 1}, std::pair{"plain-musl", 1}, std::pair{"exits", 0}}) {
        if (!std::filesystem::exists(program(name)))
            continue; // no musl-gcc
        Words words = {program(name), "hello"};
        onespace_status status = {};
        int id = onespace_spawn(words[0].c_str(), pointers(words).data(), nullptr, nullptr);
        ASSERT_GT(id, 0);
        ASSERT_EQ(onespace_wait(id, &status, Patience), id);
        EXPECT_EQ(status.status, 3 << 8) << name;
        EXPECT_EQ(status.by_exit, by_exit) << name;
    }
}

TEST_F(wait_for, refuses_ids_that_are_no_tasks)
{
    EXPECT_EQ(onespace_wait(ONESPACE_ROOT, nullptr, 0), -ECHILD);
    EXPECT_EQ(onespace_wait(12345, nullptr, 0), -ECHILD);
    EXPECT_EQ(onespace_wait(-7, nullptr, 0), -ECHILD);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 0), -ECHILD);
}

TEST_F(wait_for, ends_at_its_timeout)
{
    Task task = sleeper();
    EXPECT_EQ(onespace_wait(task.id(), nullptr, 0), -ETIMEDOUT);
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(onespace_wait(task.id(), nullptr, 100), -ETIMEDOUT);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 100), -ETIMEDOUT);
    auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_GE(waited, std::chrono::milliseconds(200));
    EXPECT_LT(waited, std::chrono::milliseconds(Patience));
    task.kill_and_wait();
}

TEST_F(wait_for, leaves_the_status_untouched_when_it_fails)
{
    Task task = sleeper();
    onespace_status status, before;
    memset(&status, 0x5a, sizeof(status));
    before = status;
    EXPECT_EQ(onespace_wait(task.id(), &status, 10), -ETIMEDOUT);
    EXPECT_EQ(memcmp(&status, &before, sizeof(status)), 0);
    task.kill_and_wait();
}

TEST_F(wait_for, any_gives_each_task_once)
{
    std::vector<Task> tasks;
    for (int i = 0; i < 5; i++)
        tasks.emplace_back(Words{program("state"), "exit", std::to_string(i)});
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        onespace_status status;
        int id = onespace_wait(ONESPACE_ANY, &status, Patience);
        ASSERT_GT(id, 0);
        EXPECT_EQ(status.id, id);
        EXPECT_EQ(status.status, (id - tasks[0].id()) << 8);
        sum += id - tasks[0].id();
    }
    EXPECT_EQ(sum, 0 + 1 + 2 + 3 + 4);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, Patience), -ECHILD);
}

TEST_F(wait_for, any_gives_those_that_ended_first_first)
{
    std::vector<Task> tasks;
    for (int i = 0; i < 4; i++)
        tasks.push_back(sleeper());
    for (int i : {2, 0, 3, 1}) {
        const uint32_t *ended = onespace_watch(tasks[i].id());
        ASSERT_EQ(onespace_kill(tasks[i].id(), SIGKILL), 0);
        while (!__atomic_load_n(ended, __ATOMIC_ACQUIRE))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int i : {2, 0, 3, 1})
        EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, Patience), tasks[i].id());
}

TEST_F(wait_for, any_and_a_failing_spawn_do_not_disturb_each_other)
{
    Descriptor file(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    Task other = sleeper();
    std::atomic<bool> done = false;
    std::thread waiter([&] {
        while (!done)
            EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 1), -ETIMEDOUT);
    });
    for (int i = 0; i < 200; i++) {
        Attr attr = ONESPACE_SPAWN_ATTR_INIT;
        attr.directory = file.get();
        EXPECT_EQ(onespace_spawn("/bin/true", pointers({"true"}).data(), nullptr, &attr), -ENOTDIR);
    }
    done = true;
    waiter.join();
    other.kill_and_wait();
}

TEST_F(wait_for, tells_of_a_signal)
{
    EXPECT_EQ(as_task({program("state"), "die", std::to_string(SIGTERM)}), (Outcome{"", SIGTERM}));
    EXPECT_EQ(as_task({program("memory"), "null"}), (Outcome{"", SIGSEGV}));
}

TEST_F(wait_for, one_task_crashing_leaves_the_others_alone)
{
    Task guard({program("memory"), "guard", "8"});
    EXPECT_EQ(guard.line(), "ready");
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(as_task({program("memory"), "null"}).status, SIGSEGV);
    EXPECT_EQ(guard.finish(), exits("unchanged\n"));
}

TEST_F(wait_for, tells_the_cpu_time)
{
    Task task({program("memory"), "burn", "200"});
    onespace_status status;
    EXPECT_EQ(task.wait(&status), 0);
    EXPECT_GE(status.user_us + status.system_us, 190000u);
    EXPECT_LT(status.user_us + status.system_us, 2000000u);
}

TEST_F(wait_for, detached_tasks_is_refused)
{
    Task task({program("state"), "exit", "1"},
              [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_DETACHED; });
    EXPECT_EQ(onespace_wait(task.id(), nullptr, Patience), -ECHILD);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, Patience), -ECHILD);
    EXPECT_TRUE(eventually([&] { return has_ended(task.id()); }));
}

TEST_F(wait_for, another_tasks_child_is_refused)
{
    Task spawner({program("member"), "orphan", "sleep", "60"});
    int child = std::stoi(spawner.line());
    EXPECT_EQ(onespace_wait(child, nullptr, 0), -ECHILD);
    EXPECT_EQ(onespace_kill(child, SIGKILL), 0);
}

TEST_F(wait_for, the_tasks_of_a_spawner_that_ended_is_refused)
{
    Task spawner({program("member"), "orphan", "sh", "-c", "sleep 0.3; exit 7"});
    int child = std::stoi(spawner.line());
    spawner.close_input();
    EXPECT_EQ(spawner.wait(), 0);
    EXPECT_EQ(onespace_wait(child, nullptr, Patience), -ECHILD);
    EXPECT_TRUE(
        eventually([&] { return onespace_kill(child, 0) == -ESRCH; })); // its slot is free again
}

TEST_F(wait_for, works_from_several_threads)
{
    std::vector<Task> tasks;
    for (int i = 0; i < 8; i++)
        tasks.emplace_back(Words{program("state"), "exit", "0"});
    std::atomic<int> got = 0, none = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            int id;
            while ((id = onespace_wait(ONESPACE_ANY, nullptr, Patience)) > 0)
                got++;
            none += id == -ECHILD;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(got, 8);
    EXPECT_EQ(none, 4);
}

TEST_F(reaping, the_programs_wait_never_takes_a_task)
{
    Task task({program("state"), "exit", "0"});
    Task exec({"sh", "-c", "exec sleep 0.1"});
    sleep_ms(200);
    EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), 0); // the reaper lives
    EXPECT_EQ(task.wait(), 0);
    EXPECT_EQ(exec.wait(), 0);
}

TEST_F(reaping, tasks_whose_spawner_executes_another_program_are_nobodys)
{
    Task spawner({program("member"), "spawn-and-execute", "true"});
    spawner.write_line("cat");
    EXPECT_EQ(spawner.line(), "cat");
    EXPECT_TRUE(eventually([] { return probe_slots() == 1; }));
    EXPECT_EQ(spawner.finish().status, 0);
}

TEST_F(reaping, the_space_never_takes_the_programs_children)
{
    pid_t child = fork();
    if (child == 0)
        _exit(11);
    EXPECT_EQ(as_task({program("state"), "exit", "3"}).status, 3 << 8);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 10), -ECHILD);
    int status;
    EXPECT_EQ(waitpid(-1, &status, 0), child);
    EXPECT_EQ(status, 11 << 8);
}

TEST_F(reaping, a_task_ending_sends_the_root_no_signal)
{
    static std::atomic<int> signals;
    signal(SIGCHLD, [](int) { signals++; });
    EXPECT_EQ(as_task({program("state"), "exit", "0"}).status, 0);
    EXPECT_EQ(as_task({"sh", "-c", "exec true"}).status, 0);
    EXPECT_EQ(signals, 0);
}

TEST_F(reaping, a_task_waits_for_its_own_children)
{
    EXPECT_EQ(as_task({"sh", "-c",
                       "(exit 4) & wait $!; echo $?; sleep 0.1 & wait; true | cat; echo end"}),
              exits("4\nend\n"));
}

TEST_F(kill_task, sends_the_signal_to_the_task_alone)
{
    Task first = sleeper(), second = sleeper();
    EXPECT_EQ(onespace_kill(first.id(), 0), 0);
    first.kill(SIGTERM);
    EXPECT_EQ(first.wait(), SIGTERM);
    EXPECT_EQ(onespace_kill(first.id(), 0), -ESRCH);
    EXPECT_EQ(onespace_kill(second.id(), 0), 0);
    second.kill_and_wait();
}

TEST_F(kill_task, refuses_what_is_no_task_and_no_signal)
{
    Task task = sleeper();
    EXPECT_EQ(onespace_kill(12345, SIGTERM), -ESRCH);
    EXPECT_EQ(onespace_kill(ONESPACE_ANY, SIGTERM), -ESRCH);
    EXPECT_EQ(onespace_kill(task.id(), 1000), -EINVAL);
    task.kill_and_wait();
}

TEST_F(kill_task, a_task_may_catch_the_signal)
{
    Task task({"sh", "-c",
               "trap 'echo caught; exit 6' TERM; echo sleeping; while :; do sleep 0.01; done"});
    EXPECT_EQ(task.line(), "sleeping");
    task.kill(SIGTERM);
    EXPECT_EQ(task.finish(), exits("caught\n", 6));
}

TEST_F(watch, is_zero_while_the_task_lives_and_wakes_at_its_end)
{
    Task task = sleeper();
    const uint32_t *word = onespace_watch(task.id());
    ASSERT_NE(word, nullptr);
    EXPECT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0u);
    std::thread killer([&] {
        sleep_ms(50);
        task.kill();
    });
    timespec most = {Patience / 1000, 0};
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
        if (syscall(SYS_futex, word, FUTEX_WAIT, 0, &most, nullptr, 0) != 0 && errno == ETIMEDOUT)
            break;
    EXPECT_NE(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0u);
    killer.join();
    EXPECT_EQ(task.wait(), SIGKILL);
}

TEST_F(watch, gives_nothing_for_what_is_no_task)
{
    EXPECT_EQ(onespace_watch(12345), nullptr);
    EXPECT_EQ(onespace_watch(-1), nullptr);
}
