// tests/pip/fixture.hpp: a PiP root per test, with guests of tests/pip/guests/pip_guest.c.
#ifndef ONESPACE_TESTS_PIP_FIXTURE_HPP
#define ONESPACE_TESTS_PIP_FIXTURE_HPP

#include "../lib/fixture.hpp"
#include "shared.h"

namespace pip
{

using namespace fixture;

inline std::string guest()
{
    return program("pip_guest");
}

constexpr int Tasks = 8;

class PipTest : public ::testing::Test
{
  protected:
    shared memory = {};

    void SetUp() override
    {
        int pipid = 0, ntasks = Tasks;
        void *exported = &memory;
        ASSERT_EQ(pip_init(&pipid, &ntasks, &exported, 0), 0);
        ASSERT_EQ(pipid, PIP_PIPID_ROOT);
    }
    // Everything is freed: tasks, memory, the space.
    void TearDown() override
    {
        if (!pip_is_initialized())
            return;
        EXPECT_EQ(pip_kill_all_child_tasks(), 0);
        while (pip_wait_any(nullptr, nullptr) == 0)
            ;
        EXPECT_EQ(pip_fin(), 0);
        EXPECT_EQ(onespace_self(), -EPERM) << "the space is left";
    }
    // Spawns the guest as that PiP id: 0 or an error number.
    int spawn(const Words &words, int pipid)
    {
        Words all = words;
        all.insert(all.begin(), guest());
        std::vector<char *> argv = pointers(all);
        return pip_spawn(argv[0], argv.data(), nullptr, PIP_CPUCORE_ASIS, &pipid, nullptr, nullptr,
                         nullptr);
    }
    int wait(int pipid)
    {
        int status = -1;
        int error = pip_wait(pipid, &status);
        return error ? -error : status;
    }
    // The exit status of the guest as PiP id 0, or -1.
    int play(const Words &words)
    {
        int error = spawn(words, 0);
        EXPECT_EQ(error, 0);
        int status = error ? -1 : wait(0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
};

} // namespace pip

#endif
