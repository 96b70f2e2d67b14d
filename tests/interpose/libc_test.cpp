// tests/interpose/libc_test.cpp: programs with other libcs, with none to load, and of other
// languages.
#include <algorithm>

#include "fixture.hpp"

using namespace fixture;

// The program plain.c.
using libc = BuildsTest;

TEST_P(libc, starts_prints_allocates_and_runs_threads)
{
    for (const auto &[scene, outcome] : {std::pair("hello", exits("hello 6\n", 3)),
                                         {"errno", exits("errno 0, then 0\n")},
                                         {"malloc", exits("wrong 0\n")},
                                         {"threads", exits("wrong 0\n")}})
        EXPECT_EQ(as_task({program(GetParam()), scene}), outcome) << scene;
}

TEST_P(libc, runs_beside_others)
{
    std::vector<std::unique_ptr<Task>> tasks;
    for (const char *other : {GetParam(), "plain", "plain-static", GetParam()})
        tasks.push_back(std::make_unique<Task>(Words{program(other), "threads"}));
    for (auto &task : tasks)
        EXPECT_EQ(task->finish(), exits("wrong 0\n"));
}

INSTANTIATE_TEST_SUITE_P(of, libc, testing::Values("plain", "plain-static", "plain-musl"), by_name);

using language = SpaceTest;

TEST_F(language, go_recovers_from_nil_pointers)
{
    if (!is_built("nil-go"))
        GTEST_SKIP() << "needs go";
    std::string output = "runtime error: invalid memory address or nil pointer dereference\n";
    EXPECT_EQ(as_task({program("nil-go")}), exits(output));
}

TEST_F(language, java_catches_null_pointers)
{
    if (access(program("Null.class").c_str(), R_OK) != 0)
        GTEST_SKIP() << "needs javac";
    EXPECT_EQ(as_task({"java", "-Xmx128m", "-cp", ONESPACE_TEST_PROGRAMS, "Null"}),
              exits("caught 100000\n"));
}
