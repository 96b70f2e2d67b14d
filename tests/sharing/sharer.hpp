// tests/sharing/sharer.hpp: the guest `sharing`, which makes and uses things on command.
// docs/sharing.md summarizes what these tests show.
#ifndef ONESPACE_TESTS_SHARING_SHARER_HPP
#define ONESPACE_TESTS_SHARING_SHARER_HPP

#include "fixture.hpp"

namespace fixture
{

class Sharer : public Task
{
  public:
    // A quiet one does not call onespace_init.
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
    // Both must exit normally.
    static void expect_good_ends(Sharer &one, Sharer &other)
    {
        EXPECT_EQ(one.finish(), exits(""));
        EXPECT_EQ(other.finish(), exits(""));
    }
};

} // namespace fixture

#endif
