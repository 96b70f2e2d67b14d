// tests/space/killed_test.cpp: a member is killed at each point of a call, one after another; a
// debugger stops it there.
#include <sys/ptrace.h>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

namespace
{

// A task that stands at the first of two breakpoints.
class Debugged
{
  public:
    explicit Debugged(const std::string &scene) : task_({program("member"), scene, "true"})
    {
        EXPECT_EQ(task_.line(), "ready");
        pid_ = task_.pid();
        is_attached_ = ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_TRACESYSGOOD) == 0;
        error_ = errno;
        if (!is_attached_)
            return;
        task_.write_line("");
        EXPECT_EQ(next_stop(), SIGTRAP);
    }
    // 0, or why it cannot be debugged.
    int error() const
    {
        return is_attached_ ? 0 : error_;
    }
    // Goes on by an instruction (PTRACE_SINGLESTEP) or to where a system call begins or ends
    // (PTRACE_SYSCALL). False: it stands at the other breakpoint.
    bool step(__ptrace_request how)
    {
        siginfo_t info = {};
        EXPECT_EQ(ptrace(how, pid_, nullptr, nullptr), 0);
        int stop = next_stop();
        EXPECT_EQ(stop & ~0x80, SIGTRAP);
        EXPECT_EQ(ptrace(PTRACE_GETSIGINFO, pid_, nullptr, &info), 0);
        return info.si_code != SI_KERNEL; // of a breakpoint
    }
    void kill()
    {
        int status;
        task_.kill();
        if (is_attached_) { // the tracer is told first, and then the reaper
            EXPECT_EQ(waitpid(pid_, &status, __WALL), pid_);
        }
        EXPECT_EQ(task_.wait(), SIGKILL);
    }

  private:
    int next_stop() const
    {
        int status = 0;
        EXPECT_EQ(waitpid(pid_, &status, __WALL), pid_);
        return WIFSTOPPED(status) ? WSTOPSIG(status) : -status;
    }
    Task task_;
    int pid_ = -1, error_ = 0;
    bool is_attached_ = false;
};

class killed : public SpaceTest
{
  protected:
    // At the first point, at the second, and so on until the call has returned; in a usual run at
    // every fifth, beginning with one of the first five.
    static void at_each_point_of(const std::string &scene, __ptrace_request how)
    {
        bool has_returned = false;
        int step = static_cast<int>(every(5)), points = static_cast<int>(time(nullptr)) % step;
        for (; !has_returned && !HasFailure(); points += step) {
            Debugged task(scene);
            if (task.error() == EPERM) {
                task.kill();
                GTEST_SKIP() << "may not debug its tasks";
            }
            ASSERT_EQ(task.error(), 0);
            for (int i = 0; i < points && !has_returned; i++)
                has_returned = !task.step(how);
            task.kill();
            char slots[4096];
            bool all_free = eventually([] { return probe_slots() == 0; });
            probe_describe(slots, sizeof(slots));
            EXPECT_TRUE(all_free) << "killed at point " << points << ": " << slots;
        }
        EXPECT_GT(points, 20);
        EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
        EXPECT_EQ(probe_holds(), 0);
        EXPECT_EQ(as_task({"true"}).status, 0);
    }
};

} // namespace

TEST_F(killed, at_any_instruction_of_a_wait_leaves_no_slot)
{
    at_each_point_of("debugged-wait", PTRACE_SINGLESTEP);
}

TEST_F(killed, at_any_system_call_of_a_spawn_leaves_no_slot)
{
    at_each_point_of("debugged-spawn", PTRACE_SYSCALL);
}
