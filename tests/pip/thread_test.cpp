// tests/pip/thread_test.cpp: PIP_MODE_PTHREAD.
#include "fixture.hpp"

using namespace pip;

class pip_thread_mode : public PipTest
{
  protected:
    void SetUp() override
    {
        int pipid = 0, ntasks = Tasks;
        void *exported = &memory;
        ASSERT_EQ(pip_init(&pipid, &ntasks, &exported, PIP_MODE_PTHREAD), 0);
    }
    void TearDown() override // SIGKILL would end this process
    {
        while (pip_wait_any(nullptr, nullptr) == 0)
            ;
        EXPECT_EQ(pip_fin(), 0);
    }
};

TEST_F(pip_thread_mode, is_reported)
{
    int flag = 0, mode = 0;
    EXPECT_EQ(pip_is_threaded(&flag), 0);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(pip_is_shared_fd(&flag), 0);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(pip_get_mode(&mode), 0);
    EXPECT_EQ(mode, static_cast<int>(PIP_MODE_PTHREAD));
}

TEST_F(pip_thread_mode, ends_tasks_alone)
{
    for (const char *end : {"exit", "quick-exit"})
        EXPECT_EQ(play({end, "7"}), 7) << end;
}

TEST_F(pip_thread_mode, shares_the_process)
{
    pip_id_t mine = 0, its = 0;
    ASSERT_EQ(spawn({"export", "number", "wait"}, 0), 0);
    EXPECT_EQ(pip_get_system_id(PIP_PIPID_ROOT, &mine), 0);
    EXPECT_EQ(pip_get_system_id(0, &its), 0);
    EXPECT_EQ(mine, its);
    int *number = nullptr;
    ASSERT_EQ(pip_named_import(0, reinterpret_cast<void **>(&number), "number"), 0);
    EXPECT_EQ(*number, 4711);
    EXPECT_EQ(pip_named_export(number, "go"), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_thread_mode, runs_start_functions)
{
    pip_spawn_program_t program;
    std::string path = guest();
    int number = -1, pipid = 3, status = 0;
    pip_spawn_from_func(&program, path.data(), const_cast<char *>("begin"), &number, nullptr,
                        nullptr);
    ASSERT_EQ(pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, &pipid, nullptr), 0);
    ASSERT_EQ(pip_wait(3, &status), 0);
    EXPECT_EQ(WEXITSTATUS(status), 43);
    EXPECT_EQ(number, 3);
}

TEST_F(pip_thread_mode, delivers_signals_to_the_task)
{
    ASSERT_EQ(spawn({"thread-signals"}, 0), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 1; }));
    EXPECT_EQ(pip_kill(0, SIGUSR1), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_thread_mode, keeps_tasks_in_step)
{
    enum { COUNT = 3, ROUNDS = 50 };
    ASSERT_EQ(pip_barrier_init(&memory.barrier, COUNT), 0);
    for (int i = 0; i < COUNT; i++)
        ASSERT_EQ(spawn({"barrier", std::to_string(+ROUNDS)}, i), 0);
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQ(wait(i), 0);
    EXPECT_EQ(memory.errors, 0);
}
