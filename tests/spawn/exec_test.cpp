// tests/spawn/exec_test.cpp: a task that executes another program leaves the space.
#include "fixture.hpp"

using namespace fixture;

using exec = SpaceTest;

TEST_F(exec, gives_the_status_of_the_new_program)
{
    EXPECT_EQ(as_task({"sh", "-c", "exec sh -c 'echo new; exit 33'"}), exits("new\n", 33));
    EXPECT_EQ(as_task({"sh", "-c", "exec sh -c 'kill -USR1 $$'"}).status, SIGUSR1);
}

TEST_F(exec, keeps_the_process_id)
{
    Task task({"sh", "-c", "echo $$; exec sh -c 'echo $$; read line; exit 0'"});
    std::string before = task.line();
    EXPECT_EQ(task.line(), before);
    EXPECT_EQ(std::to_string(task.pid()), before);
}

TEST_F(exec, takes_exports_and_memory_away_at_once)
{
    Task task({program("member"), "export-and-exec", "cat"});
    void *address = nullptr;
    ASSERT_EQ(onespace_import(task.id(), "number", &address, nullptr, Patience), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(onespace_owner(address), task.id());
    EXPECT_EQ(onespace_release(task.id()), 0);
    task.write_line("go");
    EXPECT_EQ(task.line(), "go on"); // by the new program
    EXPECT_TRUE(eventually([&] { return Footprint::now().task_mappings == 0; }));
    EXPECT_EQ(onespace_owner(address), -ENOENT);
    EXPECT_EQ(onespace_import(task.id(), "number", &address, nullptr, Patience), -EOWNERDEAD);
    EXPECT_EQ(onespace_lookup(task.id(), "exported_number", &address, nullptr), -ESRCH);
    EXPECT_EQ(onespace_kill(task.id(), 0), 0) << "the process lives";
    EXPECT_EQ(task.finish(), exits(""));
}

TEST_F(exec, leaves_held_memory_readable)
{
    Task task({program("member"), "export-and-exec", "cat"});
    void *address = nullptr;
    ASSERT_EQ(onespace_import(task.id(), "number", &address, nullptr, Patience), 0);
    task.write_line("go");
    EXPECT_EQ(task.line(), "go on");
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_TRUE(eventually([&] { return onespace_owner(address) == -ENOENT; }));
}

TEST_F(exec, that_fails_leaves_the_task_a_member)
{
    Task task({program("member"), "export-and-exec", "/no/such/program"});
    void *address = nullptr;
    ASSERT_EQ(onespace_import(task.id(), "number", &address, nullptr, Patience), 0);
    EXPECT_EQ(onespace_release(task.id()), 0);
    task.write_line("go");
    EXPECT_EQ(task.line(), "exec: No such file or directory");
    ASSERT_EQ(onespace_import(task.id(), "number", &address, nullptr, 0), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_EQ(task.finish().status, 1 << 8);
}

TEST_F(exec, from_a_thread_that_is_not_the_first)
{
    EXPECT_EQ(as_task({program("children"), "exec-from-thread"}), exits("from a thread\n"));
}

TEST_F(exec, by_a_child_changes_nothing_for_the_task)
{
    Task task({program("member"), "export-and-run", "true"});
    void *address = nullptr;
    EXPECT_EQ(task.line(), "ran");
    ASSERT_EQ(onespace_import(task.id(), "number", &address, nullptr, Patience), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(onespace_release(task.id()), 0);
}

TEST_F(exec, gives_descriptors_and_environment_on)
{
    setenv("ONESPACE_TEST_WORD", "kept", 1);
    EXPECT_EQ(as_task({"sh", "-c", "exec sh -c 'echo $ONESPACE_TEST_WORD'"}), exits("kept\n"));
}
