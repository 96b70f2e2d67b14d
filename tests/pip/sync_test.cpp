// tests/pip/sync_test.cpp: barrier, mutex, signals, ends.
#include "fixture.hpp"

using namespace pip;

class pip_barrier_of : public PipTest
{
};
class pip_mutex_of : public PipTest
{
};
class pip_signals : public PipTest
{
};
class pip_ends : public PipTest
{
};

TEST_F(pip_barrier_of, bad_arguments_is_refused)
{
    pip_barrier_t barrier;
    EXPECT_EQ(pip_barrier_init(&barrier, 0), EINVAL);
    EXPECT_EQ(pip_barrier_init(&barrier, -3), EINVAL);
    EXPECT_EQ(pip_barrier_init(nullptr, 1), EINVAL);
    EXPECT_EQ(pip_barrier_wait(nullptr), EINVAL);
    EXPECT_EQ(pip_barrier_fin(nullptr), EINVAL);
    memset(&barrier, 0, sizeof(barrier));
    EXPECT_EQ(pip_barrier_wait(&barrier), EINVAL) << "never initialised";
}

TEST_F(pip_barrier_of, one_passes)
{
    ASSERT_EQ(pip_barrier_init(&memory.barrier, 1), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pip_barrier_wait(&memory.barrier), 0);
    EXPECT_EQ(pip_barrier_fin(&memory.barrier), 0);
}

TEST_F(pip_barrier_of, many_keeps_them_in_step)
{
    enum { COUNT = 4, ROUNDS = 200 };
    ASSERT_EQ(pip_barrier_init(&memory.barrier, COUNT + 1), 0);
    for (int i = 0; i < COUNT; i++)
        ASSERT_EQ(spawn({"barrier", std::to_string(+ROUNDS)}, i), 0);
    for (int i = 0; i < ROUNDS; i++) {
        __atomic_add_fetch(&memory.counter, 1, __ATOMIC_RELAXED);
        ASSERT_EQ(pip_barrier_wait(&memory.barrier), 0);
        EXPECT_EQ(memory.counter, (i + 1) * (COUNT + 1));
        ASSERT_EQ(pip_barrier_wait(&memory.barrier), 0);
    }
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQ(wait(i), 0);
    EXPECT_EQ(memory.errors, 0);
    EXPECT_EQ(pip_barrier_fin(&memory.barrier), 0);
}

TEST_F(pip_barrier_of, those_that_wait_is_busy)
{
    ASSERT_EQ(pip_barrier_init(&memory.barrier, 2), 0);
    ASSERT_EQ(spawn({"barrier", "1"}, 0), 0);
    EXPECT_TRUE(eventually([&] { return pip_barrier_fin(&memory.barrier) == EBUSY; }));
    EXPECT_EQ(pip_barrier_wait(&memory.barrier), 0);
    EXPECT_EQ(pip_barrier_wait(&memory.barrier), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_mutex_of, its_owner_alone_is_unlocked)
{
    EXPECT_EQ(pip_mutex_init(nullptr), EINVAL);
    EXPECT_EQ(pip_mutex_lock(nullptr), EINVAL);
    ASSERT_EQ(pip_mutex_init(&memory.mutex), 0);
    EXPECT_EQ(pip_mutex_unlock(&memory.mutex), EPERM);
    ASSERT_EQ(pip_mutex_lock(&memory.mutex), 0);
    EXPECT_EQ(pip_mutex_lock(&memory.mutex), EDEADLK);
    EXPECT_EQ(pip_mutex_fin(&memory.mutex), EBUSY);
    std::thread([&] { EXPECT_EQ(pip_mutex_unlock(&memory.mutex), EPERM); }).join();
    EXPECT_EQ(pip_mutex_unlock(&memory.mutex), 0);
    EXPECT_EQ(pip_mutex_fin(&memory.mutex), 0);
}

TEST_F(pip_mutex_of, tasks_excludes_them)
{
    enum { COUNT = 4, ROUNDS = 3000 };
    for (int i = 0; i < COUNT; i++)
        ASSERT_EQ(spawn({"mutex", std::to_string(+ROUNDS)}, i), 0);
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQ(wait(i), 0);
    EXPECT_EQ(memory.counter, COUNT * ROUNDS);
}

TEST_F(pip_mutex_of, a_task_that_dies_is_taken_over)
{
    ASSERT_EQ(spawn({"die-with-mutex"}, 0), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 1; }));
    std::thread killer([&] {
        sleep_ms(50);
        EXPECT_EQ(pip_kill(0, SIGKILL), 0);
    });
    EXPECT_EQ(pip_mutex_lock(&memory.mutex), EOWNERDEAD);
    killer.join();
    EXPECT_EQ(pip_mutex_unlock(&memory.mutex), 0);
    EXPECT_EQ(wait(0), SIGKILL);
    EXPECT_EQ(pip_mutex_lock(&memory.mutex), 0);
    EXPECT_EQ(pip_mutex_unlock(&memory.mutex), 0);
}

TEST_F(pip_mutex_of, a_task_that_executes_another_program_is_taken_over)
{
    ASSERT_EQ(spawn({"die-with-mutex", "execute"}, 0), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 1; }));
    EXPECT_EQ(pip_mutex_lock(&memory.mutex), EOWNERDEAD);
    EXPECT_EQ(pip_mutex_unlock(&memory.mutex), 0);
}

TEST_F(pip_signals, reach_the_task_they_are_sent_to)
{
    ASSERT_EQ(spawn({"signals"}, 0), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 1; }));
    EXPECT_EQ(pip_kill(0, SIGUSR1), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 2; }));
    EXPECT_EQ(pip_kill(0, SIGUSR2), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_signals, that_cannot_be_sent_are_refused)
{
    EXPECT_EQ(pip_kill(0, SIGUSR1), ESRCH);
    EXPECT_EQ(pip_kill(PIP_PIPID_MYSELF, 12345), EINVAL);
    EXPECT_EQ(pip_kill(PIP_PIPID_ROOT, 0), 0);
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    EXPECT_EQ(pip_kill(0, -1), EINVAL);
    EXPECT_EQ(pip_kill(0, 0), 0);
    EXPECT_EQ(pip_kill_all_child_tasks(), 0);
    EXPECT_EQ(wait(0), SIGKILL);
    EXPECT_EQ(pip_kill_all_child_tasks(), 0) << "there is none";
}

// In a process of its own, which ends.
static int status_of(const std::function<void()> &function)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        function();
        _exit(99);
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status & ~0x80;
}

static void spawn_as_root(const char *scene, int count)
{
    std::string path = guest();
    char *argv[] = {path.data(), const_cast<char *>(scene), nullptr};
    if (pip_init(nullptr, nullptr, nullptr, 0) != 0)
        _exit(98);
    for (int i = 0; i < count; i++)
        if (pip_spawn(argv[0], argv, nullptr, PIP_CPUCORE_ASIS, nullptr, nullptr, nullptr,
                      nullptr) != 0)
            _exit(97);
}

TEST(pip_abort, of_the_root_ends_all)
{
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    EXPECT_EQ(status_of([&] {
                  close(pipe_fds[0]);
                  spawn_as_root("pause", 3);
                  pip_abort();
              }),
              SIGABRT);
    close(pipe_fds[1]);
    char byte; // the tasks had inherited the other end
    EXPECT_EQ(read(pipe_fds[0], &byte, 1), 0);
    close(pipe_fds[0]);
}

TEST(pip_abort, of_a_task_ends_root_and_all)
{
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    EXPECT_EQ(status_of([&] {
                  close(pipe_fds[0]);
                  spawn_as_root("pause", 2);
                  std::string path = guest();
                  char *argv[] = {path.data(), const_cast<char *>("abort"), nullptr};
                  if (pip_spawn(argv[0], argv, nullptr, PIP_CPUCORE_ASIS, nullptr, nullptr, nullptr,
                                nullptr) != 0)
                      _exit(96);
                  pause();
              }),
              SIGABRT);
    close(pipe_fds[1]);
    char byte;
    EXPECT_EQ(read(pipe_fds[0], &byte, 1), 0);
    close(pipe_fds[0]);
}

TEST(pip_abort, without_a_root_ends_the_caller)
{
    EXPECT_EQ(status_of([] { pip_abort(); }), SIGABRT);
}

TEST(pip_exit, of_the_root_ends_the_tasks)
{
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    EXPECT_EQ(status_of([&] {
                  close(pipe_fds[0]);
                  spawn_as_root("pause", 3);
                  pip_exit(11);
              }),
              11 << 8);
    close(pipe_fds[1]);
    char byte;
    EXPECT_EQ(read(pipe_fds[0], &byte, 1), 0);
    close(pipe_fds[0]);
}

TEST_F(pip_ends, of_one_task_leave_the_others_alone)
{
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    ASSERT_EQ(spawn({"kill-self", "11"}, 1), 0);
    EXPECT_EQ(wait(1) & ~0x80, SIGSEGV);
    EXPECT_EQ(pip_trywait(0, nullptr), ECHILD);
}
