// tests/launch/policy_test.cpp: which texts are a policy, and what each rule allows.
#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

extern "C" {
#include "policy/policy.h"
}

namespace
{

policy parsed(const std::string &text)
{
    policy result;
    char message[512] = "";
    EXPECT_EQ(policy_parse(text.c_str(), &result, message, sizeof(message)), 0) << message;
    return result;
}

std::string problem(const std::string &text)
{
    policy result;
    char message[512] = "";
    EXPECT_EQ(policy_parse(text.c_str(), &result, message, sizeof(message)), -EINVAL) << text;
    return message;
}

// Why the caller may not make a space, or nothing.
std::string refusal(const std::string &text)
{
    policy rules = parsed(text);
    char message[512] = "";
    int result = policy_check_caller(&rules, message, sizeof(message));
    EXPECT_EQ(result, message[0] ? -EACCES : 0) << message;
    return message;
}

TEST(policy, an_empty_file_allows_all)
{
    policy rules = parsed("# nothing yet\n\n");
    EXPECT_TRUE(rules.exists && rules.enabled && rules.allow_root);
    EXPECT_FALSE(rules.require_guard);
    EXPECT_EQ(rules.max_tasks, 0u);
    EXPECT_TRUE(policy_allows_difference(&rules, "seccomp"));
    EXPECT_EQ(refusal(""), "");
}

TEST(policy, all_rules_are_read)
{
    policy rules = parsed("enabled = true # a comment\r\n"
                          "allow_root=false\n"
                          "require_guard\t=\ttrue\n"
                          "  max_tasks = 128\n"
                          "log = true\n"
                          "log_digest = true\n"
                          "allow_groups = [\n"
                          "  \"hpc\", # ours\n"
                          "  'guests',\n"
                          "]\n"
                          "allow_differences = []");
    EXPECT_TRUE(rules.enabled && rules.require_guard && !rules.allow_root);
    EXPECT_TRUE(rules.log && rules.log_digest);
    EXPECT_EQ(rules.max_tasks, 128u);
    ASSERT_EQ(rules.allow_groups.count, 2u);
    EXPECT_STREQ(rules.allow_groups.words[0], "hpc");
    EXPECT_STREQ(rules.allow_groups.words[1], "guests");
    EXPECT_TRUE(rules.allow_differences.is_given && !rules.allow_differences.count);
}

TEST(policy, what_is_wrong_is_said_with_its_line)
{
    const struct {
        const char *text, *message;
    } wrong[] = {
        {"\n\nenable = true\n", "line 3: enable is not a rule; there are enabled, allow_root"},
        {"[limits]\n", "line 1: not RULE = VALUE"},
        {"enabled true\n", "line 1: no = after enabled"},
        {"enabled = yes\n", "line 1: enabled is true or false"},
        {"enabled = \n", "line 1: enabled is true or false"},
        {"enabled = true true\n", "line 1: more text after the value of enabled"},
        {"enabled = true\nenabled = false\n", "line 2: enabled is there twice"},
        {"max_tasks = 0\n", "line 1: max_tasks is a number from 1 to 2047"},
        {"max_tasks = 2048\n", "line 1: max_tasks is a number from 1 to 2047"},
        {"max_tasks = 99999999999999999999999\n", "line 1: max_tasks is a number"},
        {"max_tasks = 1_000\n", "line 1: max_tasks is a number"},
        {"allow_groups = \"hpc\"\n", "line 1: allow_groups is an array of strings"},
        {"allow_groups = [hpc]\n", "line 1: allow_groups is an array of strings"},
        {"allow_groups = [\n\"a\"\n\"b\"]\n", "line 3: a comma or ] is missing"},
        {"allow_groups = [\"a", "line 1: a string of allow_groups has no end"},
        {"allow_groups = [\"a\",", "line 1: allow_groups is an array of strings"},
        {"allow_groups = [\"a\\u0041\"]", "line 1: a string of allow_groups has no end"},
        {"allow_groups = [\"\"]", "line 1: a string of allow_groups has from 1 to 63 bytes"},
    };
    for (const auto &one : wrong)
        EXPECT_EQ(problem(one.text).substr(0, strlen(one.message)), one.message);
    EXPECT_EQ(problem("allow_groups = ['" + std::string(64, 'x') + "']").substr(0, 22),
              "line 1: a string of al");
    std::string many = "allow_differences = [";
    for (int i = 0; i < 65; i++)
        many += "'x',";
    EXPECT_EQ(problem(many + "]"), "line 1: allow_differences has more than 64 strings");
}

TEST(policy, nobody_may_where_it_is_off)
{
    EXPECT_NE(refusal("enabled = false").find("turned onespace off"), std::string::npos);
}

TEST(policy, root_is_told_to_be_another_user)
{
    unsigned inside = 1, outside = 1;
    std::ifstream("/proc/self/uid_map") >> inside >> outside;
    EXPECT_EQ(refusal("allow_root = false").find("does not let root") != std::string::npos,
              (getuid() == 0 || geteuid() == 0) && inside == 0 && outside == 0);
}

TEST(policy, groups_are_those_of_the_caller)
{
    EXPECT_NE(refusal("allow_groups = []").find("members of certain groups"), std::string::npos);
    EXPECT_NE(refusal("allow_groups = ['no-such-group-here', '4294967295', '99999999999']"), "");
    EXPECT_EQ(refusal("allow_groups = ['" + std::to_string(getegid()) + "']"), "");
    if (const group *own = getgrgid(getegid())) {
        EXPECT_EQ(refusal(std::string("allow_groups = ['x', '") + own->gr_name + "']"), "");
    }
}

TEST(policy, differences_are_those_named)
{
    policy rules = parsed("allow_differences = ['cgroup', 'keyring']");
    EXPECT_TRUE(policy_allows_difference(&rules, "keyring"));
    EXPECT_FALSE(policy_allows_difference(&rules, "key"));
    EXPECT_FALSE(policy_allows_difference(&rules, "seccomp"));
}

} // namespace
