// tests/pip/init_test.cpp: pip_init, pip_fin, modes, questions.
#include "fixture.hpp"
#include "other_version.h"

using namespace pip;

class pip_init_in : public PipTest
{
};
class pip_fin_in : public PipTest
{
};
class pip_questions_in : public PipTest
{
};

static int init(int ntasks, int opts = 0)
{
    return pip_init(nullptr, &ntasks, nullptr, opts);
}

TEST(pip_init, refuses_numbers_of_tasks)
{
    EXPECT_EQ(init(0), EINVAL);
    EXPECT_EQ(init(-1), EINVAL);
    EXPECT_EQ(init(PIP_NTASKS_MAX + 1), EOVERFLOW);
    EXPECT_EQ(init(INT32_MAX), EOVERFLOW);
    EXPECT_FALSE(pip_is_initialized());
}

TEST(pip_init, takes_the_largest_number_without_arguments)
{
    ASSERT_EQ(pip_init(nullptr, nullptr, nullptr, 0), 0);
    int ntasks = 0;
    EXPECT_EQ(pip_get_ntasks(&ntasks), 0);
    EXPECT_EQ(ntasks, PIP_NTASKS_MAX);
    EXPECT_EQ(pip_fin(), 0);
}

TEST(pip_init, refuses_modes_that_do_not_exist)
{
    unsetenv("PIP_MODE");
    EXPECT_EQ(init(1, PIP_MODE_PTHREAD | PIP_MODE_PROCESS), EINVAL);
    EXPECT_EQ(init(1, PIP_MODE_PROCESS_GOT_OBS), EINVAL);
    EXPECT_EQ(init(1, static_cast<int>(~PIP_VALID_OPTS & PIP_MODE_MASK)), EINVAL);
    EXPECT_EQ(init(1, 1), EPERM) << "no mode at all";
}

struct Mode {
    const char *environment;
    unsigned opts;
    int result;
    const char *name;
};

TEST(pip_init, agrees_with_the_environment_on_a_mode)
{
    const Mode modes[] = {
        {"", 0, 0, "process:preload"},
        {"process", 0, 0, "process:preload"},
        {"PROCESS:pipclone", 0, 0, "process:pipclone"},
        {"process:preload", PIP_MODE_PROCESS, 0, "process:preload"},
        {"", PIP_MODE_PROCESS_PIPCLONE, 0, "process:pipclone"},
        {"process:preload", PIP_MODE_PROCESS_PIPCLONE, EPERM, nullptr},
        {"pthread", PIP_MODE_PROCESS, EPERM, nullptr},
        {"process:got", 0, EPERM, nullptr},
        {"nonsense", 0, EPERM, nullptr},
        {"pthread", 0, 0, "pthread"},
        {"Thread", PIP_MODE_PTHREAD, 0, "pthread"},
        {"process", PIP_MODE_PTHREAD, EPERM, nullptr},
        {"", PIP_MODE_PTHREAD, 0, "pthread"},
    };
    for (const Mode &mode : modes) {
        setenv("PIP_MODE", mode.environment, 1);
        EXPECT_EQ(init(1, static_cast<int>(mode.opts)), mode.result) << mode.environment;
        if (mode.result == 0) {
            EXPECT_STREQ(pip_get_mode_str(), mode.name);
            EXPECT_EQ(pip_fin(), 0);
        }
    }
}

TEST_F(pip_init_in, the_root_is_busy_the_second_time)
{
    EXPECT_EQ(init(1), EBUSY);
}

TEST(pip_init, makes_a_root_again_after_fin)
{
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(init(1), 0);
        EXPECT_EQ(pip_fin(), 0);
        EXPECT_EQ(pip_fin(), EPERM);
    }
}

TEST(pip_init, makes_a_root_in_a_space_that_is_there)
{
    ASSERT_EQ(onespace_init(), 0);
    ASSERT_EQ(init(1), 0);
    EXPECT_EQ(pip_fin(), 0);
    EXPECT_EQ(onespace_self(), 0) << "the space stays";
    EXPECT_EQ(onespace_fini(), 0);
}

TEST(pip_init, refuses_a_root_of_another_version)
{
    ASSERT_EQ(onespace_init(), 0);
    void *state = other_version_make();
    ASSERT_EQ(onespace_export(other_version_name(), state, 0), 0);
    EXPECT_EQ(as_task({guest(), "plain-init"},
                      [&](Attr &attr) { attr.data = other_version_record(state); })
                  .status,
              ELIBSCN << 8);
    EXPECT_EQ(onespace_unexport(other_version_name()), 0);
    EXPECT_EQ(onespace_fini(), 0);
    free(state);
}

TEST(pip_init, of_a_task_of_the_native_interface_makes_a_root)
{
    ASSERT_EQ(onespace_init(), 0);
    int word = 0;
    EXPECT_EQ(as_task({guest(), "nested-root"}, [&](Attr &attr) { attr.data = &word; }),
              exits("", 0));
    EXPECT_EQ(onespace_fini(), 0);
}

TEST(pip_functions, are_refused_before_init)
{
    EXPECT_EQ(pip_fin(), EPERM);
    pip_spawn_program_t program = {};
    EXPECT_EQ(pip_task_spawn(&program, 0, 0, nullptr, nullptr), EPERM);
    EXPECT_EQ(pip_wait_any(nullptr, nullptr), EPERM);
    EXPECT_EQ(pip_kill_all_child_tasks(), EPERM);
    EXPECT_EQ(pip_get_mode_str(), nullptr);
    EXPECT_FALSE(pip_isa_root());
}

TEST_F(pip_fin_in, the_root_waits_for_tasks)
{
    ASSERT_EQ(spawn({"exit", "0"}, 0), 0);
    EXPECT_EQ(pip_fin(), EBUSY);
    EXPECT_EQ(wait(0), 0);
    EXPECT_EQ(pip_fin(), 0);
}

TEST_F(pip_fin_in, a_task_ends_the_library_there)
{
    EXPECT_EQ(play({"fin"}), 0);
}

TEST_F(pip_fin_in, a_forked_child_nothing_works)
{
    EXPECT_EQ(play({"fork"}), 0);
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(pip_is_initialized() || pip_isa_root() || pip_fin() != EPERM || init(1) != EPERM);
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(pip_questions_in, the_root_are_answered)
{
    int pipid = 0, ntasks = 0, flag = 1;
    pip_id_t id = 0;
    EXPECT_EQ(pip_get_pipid(&pipid), 0);
    EXPECT_EQ(pipid, PIP_PIPID_ROOT);
    EXPECT_EQ(pip_get_ntasks(&ntasks), 0);
    EXPECT_EQ(ntasks, Tasks);
    EXPECT_EQ(pip_is_threaded(&flag), 0);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(pip_get_system_id(PIP_PIPID_MYSELF, &id), 0);
    EXPECT_EQ(id, static_cast<pip_id_t>(getpid()));
    EXPECT_EQ(pip_get_system_id(3, &id), ESRCH);
    EXPECT_TRUE(pip_isa_root());
    EXPECT_FALSE(pip_isa_task());
    auto now = [] {
        using std::chrono::system_clock;
        return std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
    };
    double before = now(), between = pip_gettime(), after = now();
    EXPECT_GE(between, before - 0.01);
    EXPECT_LE(between, after + 0.01);
}

TEST_F(pip_questions_in, a_task_are_answered_without_init)
{
    ASSERT_EQ(spawn({"questions", "5"}, 5), 0);
    EXPECT_EQ(wait(5), 0);
    EXPECT_EQ(play({"refusals"}), 0);
}
