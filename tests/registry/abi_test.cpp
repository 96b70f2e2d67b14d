// tests/registry/abi_test.cpp: a program of another version says that it is one, and leaves the
// space alone.
#include "change.h"
#include "member.hpp"

using namespace fixture;

namespace
{

// What a task of the library says when the registry is of another version than its agent and
// library.
Outcome run_member()
{
    return as_task({program("member"), "number"});
}

void expect_both_sides(const std::string &text)
{
    EXPECT_NE(text.find("libonespace-agent.so is of another version than the registry that "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("libonespace.so.0 is of another version than the registry that "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(" made: "), std::string::npos) << text;
    EXPECT_NE(text.find("install one version for both\n"), std::string::npos) << text;
}

} // namespace

TEST(abi, number_of_another_version_is_named_with_both_files)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    change_abi(99);
    Outcome outcome = run_member();
    expect_both_sides(outcome.output);
    EXPECT_NE(outcome.output.find(" against magic"), std::string::npos) << outcome;
    EXPECT_NE(outcome.output.find("ABI 99,"), std::string::npos) << outcome;
    restore_abi();
}

TEST(abi, layout_that_changed_without_its_number_is_noticed)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    change_layout(1);
    expect_both_sides(run_member().output);
    change_layout(static_cast<uint64_t>(-1));
}

TEST(abi, program_of_another_version_is_no_member_and_runs)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    change_abi(99);
    Outcome outcome = run_member();
    EXPECT_NE(outcome.output.find("-1 of -1"), std::string::npos) << outcome; // -EPERM
    EXPECT_EQ(as_task({"sh", "-c", "exit 3"}).status, 3 << 8);
    restore_abi();
    EXPECT_EQ(run_member().output.find("another version"), std::string::npos);
}
