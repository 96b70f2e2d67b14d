// tests/interpose/proc_self_test.cpp: a task finds its own arguments, environment, auxiliary vector
// and program in /proc/self.
#include "fixture.hpp"

using namespace fixture;

using own_files = SpaceTest;

TEST_F(own_files, have_the_tasks_arguments_and_environment)
{
    for (const Words &all : {Words{program("own_files"), "strings"},
                             Words{program("own_files"), "strings", "one", "", "an other"},
                             Words{program("own_files-static"), "strings", "one"}})
        EXPECT_NE(expect_same(all).output.find("PATH="), std::string::npos);
}

TEST_F(own_files, have_the_tasks_auxiliary_vector)
{
    for (const char *guest : {"own_files", "own_files-static"}) {
        Outcome process = expect_same({program(guest), "auxv"});
        EXPECT_EQ(std::count(process.output.begin(), process.output.end(), '\n'), 5);
        EXPECT_EQ(process.output.find(" 0\n"), std::string::npos) << "all are those of getauxval";
    }
}

TEST_F(own_files, and_prctl_have_the_same_auxiliary_vector)
{
    for (const char *guest : {"own_files", "own_files-static"}) {
        Words words = {program(guest), "auxv-call"};
        Outcome process = as_process(words);
        if (process.output.starts_with("no "))
            GTEST_SKIP() << "PR_GET_AUXV needs Linux 6.4";
        EXPECT_EQ(as_task(words), process);
    }
}

TEST_F(own_files, open_the_tasks_program)
{
    for (const char *guest : {"own_files", "own_files-static"})
        EXPECT_EQ(as_task({program(guest), "exe"}), exits("same 1\nsame 1\nclose on exec 0 1\n"));
}

TEST_F(own_files, do_not_hit_the_limit_on_file_sizes)
{
    Limit none(RLIMIT_FSIZE, 0);
    EXPECT_EQ(as_task({program("own_files"), "strings"}).status, 0);
}

// As leak checkers, garbage collectors and RDMA libraries read them. Another task's memory would be
// taken for the program's own.
TEST_F(own_files, of_mappings_list_the_tasks_alone)
{
    for (const char *guest : {"own_files", "own_files-static"}) {
        Task other({program("own_files"), "serve"});
        Words words = {program(guest), "mappings", other.line()};
        if (guest == std::string("own_files"))
            words.push_back("lower");
        Outcome process = expect_same(words);
        EXPECT_TRUE(process.output.starts_with(
            "self/maps: main 1 stack 1 heap 1 mapping 1 vdso 1 other 0 lower 0 again 1\n"))
            << process;
    }
}

TEST_F(own_files, of_mappings_list_all_if_that_is_wanted)
{
    Task other({program("own_files"), "serve"});
    Words words = {program("own_files"), "mappings", other.line()};
    setenv("ONESPACE_MAPS", "all", 1);
    Outcome task = as_task(words);
    unsetenv("ONESPACE_MAPS");
    EXPECT_TRUE(
        task.output.starts_with("self/maps: main 1 stack 0 heap 0 mapping 1 vdso 1 other 1 lower "))
        << task;
}

TEST_F(own_files, name_the_real_path_of_a_program_run_by_a_link)
{
    std::string link = testing::TempDir() + "onespace-link." + std::to_string(getpid());
    std::filesystem::create_symlink(program("exe"), link);
    expect_same({link, "read"});
    std::filesystem::remove(link);
}
