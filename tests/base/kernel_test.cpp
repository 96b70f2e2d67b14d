// tests/base/kernel_test.cpp: versions as distributions write them, and which faults each
// has.
extern "C" {
#include "base/kernel.h"
}

#include <gtest/gtest.h>

#include <string>

namespace
{
std::string read(const char *release, const char *version = "#1 SMP",
                 const char *signature = nullptr)
{
    kernel_release kernel;
    if (kernel_release_read(&kernel, release, version, signature) != 0)
        return "none";
    return std::to_string(kernel.major) + "." + std::to_string(kernel.minor) + "." +
           std::to_string(kernel.patch);
}

// The numbers of the faults of that version, without what all of them have in common.
std::string faults(const char *release, const char *version = "#1 SMP",
                   const char *signature = nullptr)
{
    kernel_release kernel;
    EXPECT_EQ(kernel_release_read(&kernel, release, version, signature), 0);
    std::string found;
    for (size_t i = 0; i < kernel_fault_count; i++)
        if (kernel_has_fault(kernel, &kernel_faults[i]))
            found += std::string(kernel_faults[i].name).substr(sizeof("CVE-2026-") - 1) + " ";
    return found;
}

TEST(kernel_release, is_read_as_upstream_and_distributions_write_it)
{
    EXPECT_EQ(read("6.19.8"), "6.19.8");
    EXPECT_EQ(read("6.19"), "6.19.0");
    EXPECT_EQ(read("7.0.0-rc3-amd64"), "7.0.-1");
    EXPECT_EQ(read("6.19~rc4"), "6.19.-1");
    EXPECT_EQ(read("6.19.6+deb14-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.19.6-1 (2026-03-06)"),
              "6.19.6");
    EXPECT_EQ(read("6.1.0-44-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.164-1 (2026-03-09)"),
              "6.1.164");
    EXPECT_EQ(read("6.17.0-14-generic", "#14-Ubuntu SMP", "Ubuntu 6.17.0-14.14-generic 6.17.9\n"),
              "6.17.9");
    EXPECT_EQ(read("5.14.0-687.31.1.el9_8.x86_64"), "5.14.0");
    EXPECT_EQ(read("6.18.33-microsoft-standard-WSL2"), "6.18.33");
}

TEST(kernel_release, of_another_branch_in_the_text_does_not_count)
{
    EXPECT_EQ(read("6.12.3", "#1 SMP Debian 6.1.164-1"), "6.12.3");
    EXPECT_EQ(read("6.12.3", "#1 SMP Debian"), "6.12.3");
}

TEST(kernel_release, that_is_no_version_is_refused)
{
    for (const char *release :
         {"", "next", "6", "6.", "6.x", ".1", "99999999999999999999.1", "6.1.99999999999999999999"})
        EXPECT_EQ(read(release), "none") << release;
}

TEST(kernel_faults, that_stall_are_those_of_6_19_before_6_19_9)
{
    EXPECT_EQ(faults("6.18.44"), "");
    EXPECT_EQ(faults("6.19.0-rc1"), "43417 43418 23225 52973 63799 23415 52977 ");
    EXPECT_EQ(faults("6.19"), "43417 43418 23225 52973 63799 23415 52977 ");
    EXPECT_EQ(faults("6.19.8"), "43417 43418 52973 63799 23415 52977 ");
    EXPECT_EQ(faults("6.19.9"), "52973 63799 23415 52977 ");
    EXPECT_EQ(faults("7.0.0-rc2"), "43417 43418 52973 63799 23415 52977 ");
    EXPECT_EQ(faults("7.0"), "52973 63799 52977 ");
}

TEST(kernel_faults, of_the_futex_hash_ends_in_three_branches)
{
    EXPECT_EQ(faults("6.16.12"), "23415 52977 ");
    EXPECT_EQ(faults("6.17.13"), "52973 23415 52977 ");
    EXPECT_EQ(faults("6.18.32"), "52973 52977 ");
    EXPECT_EQ(faults("6.18.33"), "");
    EXPECT_EQ(faults("6.19.50"), "52973 63799 52977 ");
    EXPECT_EQ(faults("7.0.9"), "52973 63799 52977 ");
    EXPECT_EQ(faults("7.0.10"), "63799 ");
}

TEST(kernel_faults, of_the_bit_that_is_cleared_ends_with_7_1_3)
{
    EXPECT_EQ(faults("7.1.2"), "63799 ");
    EXPECT_EQ(faults("7.1.3"), "");
    EXPECT_EQ(faults("7.2.0-rc1"), "");
    EXPECT_EQ(faults("8.0"), "");
}

TEST(kernel_faults, of_requeueing_end_in_each_long_term_branch)
{
    EXPECT_EQ(faults("5.14.21"), "");
    EXPECT_EQ(faults("5.15.215"), "52977 ");
    EXPECT_EQ(faults("5.15.216"), "");
    EXPECT_EQ(faults("6.1.0-44-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.174-1 (2026-03-09)"),
              "52977 ");
    EXPECT_EQ(faults("6.1.0-50-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-09)"), "");
    EXPECT_EQ(faults("6.5.13"), "52977 ");
    EXPECT_EQ(faults("6.12.91"), "");
}
} // namespace
