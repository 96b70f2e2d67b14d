// tests/space/abi_test.cpp: a program of another version reports the mismatch and is not a member.
#include "change.h"
#include "member.hpp"

using namespace fixture;

namespace
{

// The output of a member whose agent and library are of another version than the registry.
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

TEST(abi, mismatch_is_reported_with_both_files_and_tags)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    uint64_t tag = change_tag(99);
    Outcome outcome = run_member();
    expect_both_sides(outcome.output);
    EXPECT_NE(outcome.output.find(" made: ABI tag 0x"), std::string::npos) << outcome;
    EXPECT_NE(outcome.output.find(" against ABI tag 0x63: "), std::string::npos) << outcome;
    change_tag(tag);
}

TEST(abi, program_of_another_version_is_no_member_and_runs)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    uint64_t tag = change_tag(99);
    Outcome outcome = run_member();
    EXPECT_NE(outcome.output.find("-1 of -1"), std::string::npos) << outcome; // -EPERM
    EXPECT_EQ(as_task({"sh", "-c", "exit 3"}).status, 3 << 8);
    EXPECT_EQ(as_task({"/bin/echo", "text"}).status, 0); // calls free(NULL)
    change_tag(tag);
    EXPECT_EQ(run_member().output.find("another version"), std::string::npos);
}
