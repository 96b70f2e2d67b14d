// tests/mpi/group/cpus_test.cpp: whether processes outnumber the CPUs that they may run on.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "mpi/group/cpus.h"
}

namespace
{

std::vector<int> usable_cpus()
{
    cpu_set_t set;
    std::vector<int> found;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                found.push_back(cpu);
    return found;
}

// A process that is bound to one CPU until the end of the test.
class bound
{
  public:
    explicit bound(int cpu)
    {
        int ready[2], ends[2];
        char byte;
        if (pipe(ready) != 0 || pipe(ends) != 0)
            abort();
        pid_ = fork();
        if (pid_ == 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(cpu, &set);
            close(ends[1]);
            bool right =
                sched_setaffinity(0, sizeof(set), &set) == 0 && write(ready[1], "", 1) == 1;
            _exit(right && read(ends[0], &byte, 1) == 0 ? 0 : 1);
        }
        close(ends[0]);
        close(ready[1]);
        end_ = ends[1];
        EXPECT_EQ(read(ready[0], &byte, 1), 1);
        close(ready[0]);
    }
    bound(const bound &) = delete;
    bound &operator=(const bound &) = delete;
    ~bound()
    {
        close(end_);
        waitpid(pid_, nullptr, 0);
    }
    int pid() const
    {
        return pid_;
    }

  private:
    int pid_, end_;
};

bool are_fewer(const std::vector<int> &pids)
{
    static cpu_demand found;
    found = {};
    for (int pid : pids)
        cpu_demand_add(&found, pid);
    return cpu_demand_exceeds_cpus(&found);
}

TEST(cpus, processes_on_one_cpu_outnumber_it)
{
    int cpu = usable_cpus().at(0);
    bound one(cpu), other(cpu);
    EXPECT_FALSE(are_fewer({one.pid()}));
    EXPECT_TRUE(are_fewer({one.pid(), other.pid()}));
}

TEST(cpus, processes_on_cpus_of_their_own_do_not)
{
    auto cpus = usable_cpus();
    if (cpus.size() < 2)
        GTEST_SKIP() << "one CPU";
    bound one(cpus[0]), other(cpus[1]);
    EXPECT_FALSE(are_fewer({one.pid(), other.pid()}));
    bound third(cpus[1]);
    EXPECT_TRUE(are_fewer({one.pid(), other.pid(), third.pid()}));
}

TEST(cpus, unknown_processes_may_use_all)
{
    int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    std::vector<int> pids(online, 0);
    EXPECT_FALSE(are_fewer(pids));
    pids.push_back(0);
    EXPECT_TRUE(are_fewer(pids));
}

TEST(cpus, an_ended_process_is_unknown)
{
    int ended = 0;
    {
        bound one(usable_cpus().at(0));
        ended = one.pid();
    }
    EXPECT_FALSE(are_fewer({ended}));
}

} // namespace
