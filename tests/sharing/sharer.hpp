// tests/sharing/sharer.hpp: the guest `sharing`, which makes and uses things on command.
// docs/sharing.md summarizes what these tests show.
#ifndef ONESPACE_TESTS_SHARING_SHARER_HPP
#define ONESPACE_TESTS_SHARING_SHARER_HPP

#include "fixture.hpp"

#include <optional>

namespace fixture
{

class Sharer : public Task
{
  public:
    // A quiet sharer does not call onespace_init.
    explicit Sharer(bool quiet = false)
        : Task(quiet ? Words{program("sharing"), "quiet"} : Words{program("sharing")})
    {
    }
    std::string make(const std::string &name)
    {
        write_line("make " + name);
        return line();
    }
    void order(const std::string &name, const std::string &address)
    {
        write_line("use " + name + " " + address);
    }
    std::string use(const std::string &name, const std::string &address = "0")
    {
        order(name, address);
        return line();
    }
};

class SharingTest : public SpaceTest
{
  protected:
    void SetUp() override
    {
        SpaceTest::SetUp();
        owner.emplace();
        other.emplace();
    }
    // Those that a test has not ended exit normally.
    void TearDown() override
    {
        for (auto *task : {&owner, &other})
            if (*task) {
                EXPECT_EQ(finish(*task), exits(""));
            }
        SpaceTest::TearDown();
    }
    static Outcome finish(std::optional<Sharer> &task)
    {
        Outcome outcome = task->finish();
        task.reset();
        return outcome;
    }
    static void kill(std::optional<Sharer> &task)
    {
        task->kill();
        EXPECT_EQ(task->wait(), SIGKILL);
        task.reset();
    }

    std::optional<Sharer> owner, other;
};

} // namespace fixture

#endif
