// tests/interpose/exe_test.cpp: a task is its own program, although the kernel knows the root's
// only.
#include "fixture.hpp"

using namespace fixture;

using exe = SpaceTest;

TEST_F(exe, names_the_tasks_program)
{
    Outcome process = as_process({program("exe"), "read"});
    EXPECT_NE(
        process.output.find("realpath " + std::filesystem::canonical(program("exe")).string()),
        std::string::npos);
    EXPECT_EQ(as_task({program("exe"), "read"}), process);
}

TEST_F(exe, names_the_real_path_of_a_program_run_by_a_link)
{
    std::string link = testing::TempDir() + "onespace-link." + std::to_string(getpid());
    std::filesystem::create_symlink(program("exe"), link);
    EXPECT_EQ(as_task({link, "read"}), as_process({link, "read"}));
    std::filesystem::remove(link);
}

TEST_F(exe, executed_by_the_program_runs_itself)
{
    EXPECT_EQ(as_task({program("exe"), "again", "this"}),
              exits("myself runs again with this\n", 17));
}

TEST_F(exe, executed_by_a_child_runs_the_program)
{
    EXPECT_EQ(as_task({program("exe"), "child"}), exits("myself runs again with a child\n", 17));
}

TEST_F(exe, is_found_through_the_auxiliary_vector)
{
    EXPECT_EQ(as_task({program("exe"), "origin"}), exits("1\n"));
}
