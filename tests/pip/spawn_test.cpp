// tests/pip/spawn_test.cpp: both forms of spawning, hooks, core numbers, waits.
#include <sched.h>
#include <sys/stat.h>

#include "fixture.hpp"

using namespace pip;

class pip_spawn_of : public PipTest
{
  protected:
    char *argv_[3] = {nullptr, nullptr, nullptr};
    std::string path_ = guest();

    // Each argument is valid except what the test changes.
    int with(int coreno, int pipid, const char *file = nullptr)
    {
        argv_[0] = const_cast<char *>(file ? file : path_.c_str());
        argv_[1] = const_cast<char *>("exit");
        return pip_spawn(argv_[0], argv_, nullptr, coreno, &pipid, nullptr, nullptr, nullptr);
    }
};
class pip_task_spawn_of : public PipTest
{
};
class pip_hooks : public PipTest
{
};
class pip_wait_for : public PipTest
{
};

constexpr int AsIs = PIP_CPUCORE_ASIS;

TEST_F(pip_spawn_of, bad_arguments_are_refused)
{
    char *empty[] = {nullptr};
    int pipid = PIP_PIPID_ANY;
    EXPECT_EQ(pip_spawn(nullptr, nullptr, nullptr, AsIs, &pipid, nullptr, nullptr, nullptr),
              EINVAL);
    EXPECT_EQ(pip_spawn(path_.data(), empty, nullptr, AsIs, &pipid, nullptr, nullptr, nullptr),
              EINVAL);
    EXPECT_EQ(pip_spawn(path_.data(), nullptr, nullptr, AsIs, &pipid, nullptr, nullptr, nullptr),
              EINVAL);
    for (int bad : {-1, Tasks, 100000, PIP_PIPID_MYSELF, PIP_PIPID_NULL, PIP_PIPID_ROOT})
        EXPECT_EQ(with(AsIs, bad), EINVAL) << bad;
    for (int bad : {-123, static_cast<int>(PIP_CPUCORE_CORENO_MAX), 0x4000000,
                    static_cast<int>(PIP_CPUCORE_ABS | PIP_CPUCORE_ASIS),
                    static_cast<int>(PIP_CPUCORE_ABS | 5000)})
        EXPECT_EQ(with(bad, 0), EINVAL) << bad;
    EXPECT_EQ(pip_wait_any(nullptr, nullptr), ECHILD) << "none was started";
}

TEST_F(pip_spawn_of, files_that_cannot_be_tasks_says_why)
{
    char directory[] = "/tmp/onespace-pip-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    std::string text = std::string(directory) + "/text", plain = std::string(directory) + "/plain";
    std::ofstream(text) << std::string("\0\1\2\3 no program", 15);
    std::ofstream(plain) << "#!/bin/sh\n";
    setenv("PIP_QUIET", "1", 1);
    EXPECT_EQ(with(AsIs, 0, "/no/such/program"), ENOENT);
    EXPECT_EQ(with(AsIs, 0, "no-such-program-in-the-path"), ENOENT);
    EXPECT_EQ(with(AsIs, 0, ""), ENOENT);
    EXPECT_EQ(with(AsIs, 0, plain.c_str()), EACCES) << "not executable";
    EXPECT_EQ(with(AsIs, 0, directory), EACCES) << "a directory";
    EXPECT_EQ(with(AsIs, 0, program("fixed").c_str()), ELIBEXEC);
    std::filesystem::copy_file(path_, text, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(text, 5000);
    chmod(text.c_str(), 0755);
    EXPECT_EQ(with(AsIs, 0, text.c_str()), ELIBBAD) << "truncated";
    std::filesystem::remove_all(directory);
    EXPECT_EQ(with(AsIs, 0), 0) << "the PiP id is free still";
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_spawn_of, an_id_in_use_is_refused)
{
    ASSERT_EQ(spawn({"pause"}, 3), 0);
    EXPECT_EQ(with(AsIs, 3), EBUSY);
    EXPECT_EQ(pip_kill(3, SIGKILL), 0);
    EXPECT_EQ(wait(3), SIGKILL);
    EXPECT_EQ(with(AsIs, 3), 0);
    EXPECT_EQ(wait(3), 0);
}

TEST_F(pip_spawn_of, more_than_there_are_ids_is_refused)
{
    int pipid;
    for (int i = 0; i < Tasks; i++)
        ASSERT_EQ(spawn({"pause"}, i), 0);
    EXPECT_EQ(with(AsIs, PIP_PIPID_ANY), EAGAIN);
    EXPECT_EQ(with(AsIs, 0), EBUSY);
    EXPECT_EQ(pip_kill(6, SIGTERM), 0);
    EXPECT_EQ(wait(6), SIGTERM);
    pip_spawn_program_t program;
    argv_[0] = path_.data(), argv_[1] = const_cast<char *>("exit");
    pip_spawn_from_main(&program, nullptr, argv_, nullptr, nullptr);
    EXPECT_STREQ(program.prog, path_.c_str());
    pipid = PIP_PIPID_ANY;
    EXPECT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, &pipid, nullptr), 0);
    EXPECT_EQ(pipid, 6) << "the lowest that is free";
    EXPECT_EQ(wait(6), 0);
}

TEST_F(pip_spawn_of, the_same_id_again_and_again_keeps_no_memory)
{
    ASSERT_EQ(play({"exit", "1"}), 1);
    Footprint before = Footprint::now();
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(play({"exit", "2"}), 2);
    expect_flat(before, 8, 2048);
}

TEST_F(pip_spawn_of, a_task_binds_it_to_the_cpu)
{
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &mine))
        cpu++;
    for (int coreno : {0, static_cast<int>(PIP_CPUCORE_ABS) | cpu}) {
        int pipid = PIP_PIPID_ANY;
        pip_id_t id = 0;
        cpu_set_t found;
        argv_[0] = path_.data(), argv_[1] = const_cast<char *>("pause");
        ASSERT_EQ(pip_spawn(argv_[0], argv_, nullptr, coreno, &pipid, nullptr, nullptr, nullptr),
                  0);
        ASSERT_EQ(pip_get_system_id(pipid, &id), 0);
        ASSERT_EQ(sched_getaffinity(static_cast<pid_t>(id), sizeof(found), &found), 0);
        EXPECT_EQ(CPU_COUNT(&found), 1);
        EXPECT_TRUE(coreno == 0 || CPU_ISSET(cpu, &found));
        EXPECT_EQ(pip_kill(pipid, SIGKILL), 0);
        EXPECT_EQ(wait(pipid), SIGKILL);
    }
    EXPECT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
}

TEST_F(pip_spawn_of, a_task_gives_it_the_stack_that_the_environment_asks_for)
{
    setenv("PIP_STACKSIZE", "48M", 1);
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    pip_id_t id = 0;
    ASSERT_EQ(pip_get_system_id(0, &id), 0);
    std::ifstream maps("/proc/self/maps");
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long from = std::stoul(line, nullptr, 16);
        unsigned long to = std::stoul(line.substr(line.find('-') + 1), nullptr, 16);
        found = found ||
                (layout_slot_of(from) == 1 && to - from >= 48ul << 20 && to - from < 50ul << 20);
    }
    EXPECT_TRUE(found);
    unsetenv("PIP_STACKSIZE");
}

TEST_F(pip_task_spawn_of, bad_arguments_are_refused)
{
    pip_spawn_program_t program = {};
    std::string path = guest();
    EXPECT_EQ(pip_task_spawn(nullptr, PIP_CPUCORE_ASIS, 0, nullptr, nullptr), EINVAL);
    EXPECT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, nullptr, nullptr), EINVAL);
    program.prog = path.data();
    EXPECT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, nullptr, nullptr), EINVAL);
    char *argv[] = {path.data(), nullptr};
    program.argv = argv;
    EXPECT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 1, nullptr, nullptr), EINVAL) << "opts";
}

TEST_F(pip_task_spawn_of, a_function_runs_it_with_the_argument)
{
    pip_spawn_program_t program;
    std::string path = guest();
    int number = -1, pipid = 2, status = 0;
    pip_spawn_from_func(&program, path.data(), const_cast<char *>("begin"), &number, nullptr,
                        nullptr);
    ASSERT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, &pipid, nullptr), 0);
    ASSERT_EQ(pip_wait(2, &status), 0);
    EXPECT_EQ(WEXITSTATUS(status), 42);
    EXPECT_EQ(number, 2);
}

TEST_F(pip_task_spawn_of, a_function_that_is_not_there_is_refused)
{
    pip_spawn_program_t program;
    std::string path = guest();
    setenv("PIP_QUIET", "1", 1);
    pip_spawn_from_func(&program, path.data(), const_cast<char *>("no_function"), nullptr, nullptr,
                        nullptr);
    EXPECT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, nullptr, nullptr), ENOEXEC);
    EXPECT_EQ(pip_wait_any(nullptr, nullptr), ECHILD);
}

TEST_F(pip_task_spawn_of, a_task_passes_aux_on)
{
    pip_spawn_program_t program;
    std::string path = guest();
    int aux = 77, pipid = PIP_PIPID_ANY;
    void *mine = this;
    char *argv[] = {path.data(), const_cast<char *>("aux"), nullptr};
    pip_spawn_from_main(&program, nullptr, argv, nullptr, &aux);
    ASSERT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, &pipid, nullptr), 0);
    EXPECT_EQ(wait(pipid), 0);
    EXPECT_EQ(pip_get_aux(&mine), 0);
    EXPECT_EQ(mine, nullptr) << "the root has its own";
    EXPECT_EQ(pip_set_aux(&aux), 0);
    EXPECT_EQ(pip_get_aux(&mine), 0);
    EXPECT_EQ(mine, &aux);
}

// ---- Hooks ----

struct Calls {
    int before = 0, after = 0, pid = 0, after_pid = 0, before_result = 0, after_result = 0;
};

static int before(void *argument)
{
    Calls *calls = static_cast<Calls *>(argument);
    calls->before++;
    calls->pid = getpid();
    return calls->before_result;
}

static int after(void *argument)
{
    Calls *calls = static_cast<Calls *>(argument);
    calls->after++;
    calls->after_pid = getpid();
    return calls->after_result;
}

static int spawn_hooked(Calls *calls, const char *scene, const char *word = nullptr)
{
    std::string path = guest();
    int pipid = 0;
    char *argv[] = {path.data(), const_cast<char *>(scene), const_cast<char *>(word), nullptr};
    return pip_spawn(argv[0], argv, nullptr, PIP_CPUCORE_ASIS, &pipid, before, after, calls);
}

TEST_F(pip_hooks, run_around_the_task)
{
    Calls calls;
    pip_id_t id = 0;
    ASSERT_EQ(spawn_hooked(&calls, "pause"), 0);
    EXPECT_EQ(calls.before, 1);
    EXPECT_EQ(calls.after, 0);
    ASSERT_EQ(pip_get_system_id(0, &id), 0);
    EXPECT_EQ(static_cast<pip_id_t>(calls.pid), id) << "as the task";
    EXPECT_EQ(pip_kill(0, SIGKILL), 0);
    EXPECT_EQ(wait(0), SIGKILL);
    ASSERT_EQ(spawn_hooked(&calls, "exit"), 0);
    EXPECT_EQ(calls.after, 0);
    EXPECT_EQ(wait(0), 0);
    EXPECT_EQ(calls.after, 1);
    EXPECT_EQ(calls.after_pid, getpid()) << "as the root";
}

// How a task may end by itself, and whether `after` is called then.
static const std::tuple<const char *, const char *, int> ends[] = {
    {"exit", "0", 1},       {"returns", "0", 1},    {"quick-exit", "0", 0},
    {"fin-exit", "0", 1},   {"fin-return", "0", 1}, {"fin-quick-exit", "0", 0},
    {"kill-self", "15", 0},
};

TEST_F(pip_hooks, after_is_called_where_the_program_exited)
{
    for (auto [scene, word, called] : ends) {
        Calls calls;
        ASSERT_EQ(spawn_hooked(&calls, scene, word), 0);
        EXPECT_GE(wait(0), 0) << scene;
        EXPECT_EQ(calls.after, called) << scene;
    }
}

TEST_F(pip_hooks, after_is_called_at_any_end_if_asked)
{
    for (auto [scene, word, called] : ends) {
        Calls calls;
        std::string path = guest();
        int pipid = 0;
        char *argv[] = {path.data(), const_cast<char *>(scene), const_cast<char *>(word), nullptr};
        pip_spawn_program_t what;
        pip_spawn_hook_t hook;
        pip_spawn_from_main(&what, nullptr, argv, nullptr, nullptr);
        pip_spawn_hook(&hook, before, after, &calls);
        ASSERT_EQ(pip_task_spawn(&what, PIP_CPUCORE_ASIS, PIP_HOOK_ANY_END, &pipid, &hook), 0);
        EXPECT_GE(wait(0), 0) << scene;
        EXPECT_EQ(calls.after, 1) << scene;
    }
}

TEST_F(pip_hooks, after_is_called_for_programs_without_the_library)
{
    for (auto [name, called] : {std::pair{"plain", 1}, std::pair{"exits", 0}}) {
        Calls calls;
        std::string path = program(name);
        int pipid = 0;
        char *argv[] = {path.data(), const_cast<char *>("hello"), nullptr};
        ASSERT_EQ(
            pip_spawn(argv[0], argv, nullptr, PIP_CPUCORE_ASIS, &pipid, before, after, &calls), 0);
        EXPECT_EQ(wait(0), 3 << 8) << name;
        EXPECT_EQ(calls.after, called) << name;
    }
}

TEST_F(pip_hooks, that_refuse_fail_the_spawn)
{
    Calls calls;
    calls.before_result = ENOTSUP;
    setenv("PIP_QUIET", "1", 1);
    EXPECT_EQ(spawn_hooked(&calls, "exit"), ENOTSUP);
    EXPECT_EQ(calls.after, 0);
    EXPECT_EQ(pip_wait(0, nullptr), ECHILD);
    EXPECT_EQ(play({"exit", "3"}), 3) << "the PiP id is free";
}

TEST_F(pip_hooks, after_changes_a_good_status)
{
    Calls calls;
    calls.after_result = 5;
    setenv("PIP_QUIET", "1", 1);
    for (auto [word, code] : {std::pair{"0", 5}, std::pair{"9", 9}}) {
        ASSERT_EQ(spawn_hooked(&calls, "exit", word), 0);
        EXPECT_EQ(wait(0), code << 8);
    }
}

// ---- Waiting ----

TEST_F(pip_wait_for, what_cannot_be_is_refused)
{
    int status;
    EXPECT_EQ(pip_wait(PIP_PIPID_ROOT, &status), EDEADLK);
    EXPECT_EQ(pip_wait(PIP_PIPID_MYSELF, &status), EDEADLK);
    EXPECT_EQ(pip_trywait(PIP_PIPID_ROOT, &status), EDEADLK);
    EXPECT_EQ(pip_wait(-123, &status), ERANGE);
    EXPECT_EQ(pip_wait(Tasks, &status), ERANGE);
    EXPECT_EQ(pip_wait(PIP_PIPID_ANY, &status), EINVAL);
    EXPECT_EQ(pip_wait(PIP_PIPID_NULL, &status), EINVAL);
    EXPECT_EQ(pip_wait(0, &status), ECHILD);
    EXPECT_EQ(pip_trywait(0, &status), ECHILD);
    EXPECT_EQ(pip_wait_any(nullptr, nullptr), ECHILD);
    EXPECT_EQ(pip_trywait_any(nullptr, nullptr), ECHILD);
}

TEST_F(pip_wait_for, a_task_gives_its_status_once)
{
    ASSERT_EQ(spawn({"exit", "7"}, 4), 0);
    EXPECT_EQ(wait(4), 7 << 8);
    EXPECT_EQ(pip_wait(4, nullptr), ECHILD);
    ASSERT_EQ(spawn({"kill-self", "15"}, 4), 0);
    EXPECT_EQ(wait(4), SIGTERM);
    ASSERT_EQ(spawn({"quick-exit", "8"}, 4), 0);
    EXPECT_EQ(wait(4), 8 << 8);
}

TEST_F(pip_wait_for, a_living_task_can_be_tried)
{
    int status = -1, pipid = -1;
    ASSERT_EQ(spawn({"pause"}, 1), 0);
    EXPECT_EQ(pip_trywait(1, &status), ECHILD);
    EXPECT_EQ(pip_trywait_any(&pipid, &status), ECHILD);
    EXPECT_EQ(status, -1);
    EXPECT_EQ(pip_kill(1, SIGUSR1), 0);
    EXPECT_TRUE(eventually([&] { return pip_trywait_any(&pipid, &status) == 0; }));
    EXPECT_EQ(pipid, 1);
    EXPECT_EQ(status, SIGUSR1);
}

TEST_F(pip_wait_for, any_task_gives_each_once)
{
    for (int i = 0; i < Tasks; i++)
        ASSERT_EQ(spawn({"exit", std::to_string(i + 1)}, i), 0);
    unsigned seen = 0;
    for (int i = 0; i < Tasks; i++) {
        int pipid = -1, status = -1;
        ASSERT_EQ(pip_wait_any(&pipid, &status), 0);
        EXPECT_EQ(status, (pipid + 1) << 8);
        seen |= 1u << pipid;
    }
    EXPECT_EQ(seen, (1u << Tasks) - 1);
    EXPECT_EQ(pip_wait_any(nullptr, nullptr), ECHILD);
}

TEST_F(pip_wait_for, one_task_by_two_threads_gives_it_to_one)
{
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    int results[2] = {-1, -1};
    std::thread first([&] { results[0] = pip_wait(0, nullptr); });
    std::thread second([&] { results[1] = pip_wait(0, nullptr); });
    sleep_ms(20);
    EXPECT_EQ(pip_kill(0, SIGKILL), 0);
    first.join();
    second.join();
    EXPECT_EQ(results[0] + results[1], ECHILD);
}

// The tasks die with the reaper; the root is told.
TEST_F(pip_wait_for, tasks_whose_reaper_was_killed_ends)
{
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    ASSERT_EQ(spawn({"pause"}, 1), 0);
    pip_id_t id = 0;
    ASSERT_EQ(pip_get_system_id(0, &id), 0);
    std::ifstream status("/proc/" + std::to_string(id) + "/status");
    int reaper = 0;
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("PPid:"))
            reaper = std::stoi(line.substr(5));
    ASSERT_GT(reaper, 1);
    ASSERT_NE(reaper, getpid());
    kill(reaper, SIGKILL);
    EXPECT_EQ(wait(0), SIGKILL);
    int pipid = -1;
    EXPECT_EQ(pip_wait_any(&pipid, nullptr), 0);
    EXPECT_EQ(pipid, 1);
    _exit(HasFailure()); // the space cannot be used again
}
