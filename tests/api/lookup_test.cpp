// tests/api/lookup_test.cpp: symbols of other tasks.
#include "../storage/directory.hpp"
#include "member.hpp"

using namespace fixture;

using lookup = SpaceTest;

extern "C" __attribute__((visibility("default"))) int number_of_the_root;
int number_of_the_root = 909;
static int file_only_number_of_the_root = 808;

static int find(int id, const char *symbol, void **address, size_t *size = nullptr)
{
    return onespace_lookup(id, symbol, address, size);
}

TEST_F(lookup, finds_data_of_a_tasks_program)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *address = nullptr;
    size_t size = 0;
    ASSERT_EQ(find(task.id(), "exported_number", &address, &size), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(size, sizeof(int));
    EXPECT_EQ(onespace_owner(address), task.id());
}

TEST_F(lookup, finds_functions_that_can_be_called_in_place)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *address = nullptr;
    ASSERT_EQ(find(task.id(), "extra_function", &address), -ENOENT);
    ASSERT_EQ(task.tell("open", program("extra.so")).result, 0);
    ASSERT_EQ(find(task.id(), "extra_function", &address), 0);
    EXPECT_EQ(reinterpret_cast<int (*)(int)>(address)(1), 1235) << "works on the task's own data";
    ASSERT_EQ(find(task.id(), "extra_number", &address), 0);
    EXPECT_EQ(*static_cast<int *>(address), 1234);
}

TEST_F(lookup, finds_what_only_the_files_symbol_table_names)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *address = nullptr;
    ASSERT_EQ(find(task.id(), "file_only_number", &address), 0);
    EXPECT_EQ(*static_cast<int *>(address), 815);
}

TEST_F(lookup, takes_absolute_symbols_as_they_are)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *address = nullptr;
    ASSERT_EQ(find(task.id(), "absolute_number", &address), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address), 0x1234u);
}

TEST_F(lookup, trusts_no_file_that_has_taken_the_programs_place)
{
    Directory directory;
    const std::string file = directory / "program";
    std::filesystem::copy_file(program("plain"), file);
    Task task({file, "wait"});
    EXPECT_EQ(task.line(), "waiting");
    void *address = nullptr;
    EXPECT_EQ(find(task.id(), "main", &address), 0);
    std::filesystem::remove(file);
    std::filesystem::copy_file(program("obey"), file);
    EXPECT_EQ(find(task.id(), "main", &address), -ENOENT);
}

TEST_F(lookup, finds_each_tasks_own)
{
    Member left, right;
    EXPECT_GT(left.tell("self").result + right.tell("self").result, 0);
    void *of_left = nullptr, *of_right = nullptr;
    ASSERT_EQ(find(left.id(), "exported_number", &of_left), 0);
    ASSERT_EQ(find(right.id(), "exported_number", &of_right), 0);
    EXPECT_NE(of_left, of_right);
    EXPECT_EQ(right.tell("lookup", left.id(), "exported_number").address, of_left);
    EXPECT_EQ(left.tell("lookup", left.id(), "exported_number").address, of_left);
}

TEST_F(lookup, finds_the_functions_of_a_tasks_libc)
{
    Member task;
    void *address = nullptr;
    void *place = task.tell("place", "library").address; // qsort
    ASSERT_EQ(find(task.id(), "qsort", &address), 0);
    EXPECT_EQ(address, place);
}

TEST_F(lookup, refuses_what_has_no_address)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *address = &task;
    EXPECT_EQ(find(task.id(), "thread_local_number", &address), -ENOTSUP);
    EXPECT_EQ(find(task.id(), "strlen", &address), -ENOTSUP) << "indirect in glibc";
    EXPECT_EQ(find(task.id(), "no_such_symbol_anywhere", &address), -ENOENT);
    EXPECT_EQ(find(task.id(), "", &address), -EINVAL);
    EXPECT_EQ(find(task.id(), nullptr, &address), -EINVAL);
    EXPECT_EQ(find(task.id(), "exported_number", nullptr), -EINVAL);
    EXPECT_EQ(address, &task) << "untouched on failure";
}

TEST_F(lookup, refuses_tasks_that_are_not_there)
{
    void *address;
    EXPECT_EQ(find(12345, "main", &address), -ESRCH);
    EXPECT_EQ(find(-1, "main", &address), -ESRCH);
    Member task;
    task.close_input();
    ASSERT_TRUE(eventually([&] { return has_ended(task.id()); }));
    EXPECT_TRUE(eventually([&] { return find(task.id(), "main", &address) == -ESRCH; }));
    EXPECT_EQ(task.wait(), 0);
}

TEST_F(lookup, finds_those_of_an_ended_task_while_its_memory_is_held)
{
    Member task;
    void *import = nullptr, *address = nullptr;
    ASSERT_EQ(task.tell("export", "held", 1).result, 0);
    ASSERT_EQ(onespace_import(task.id(), "held", &import, nullptr, Patience), 0);
    EXPECT_EQ(task.finish().status, 0);
    ASSERT_EQ(find(task.id(), "exported_number", &address), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(find(task.id(), "no_such_symbol", &address), -ENOENT);
    EXPECT_EQ(onespace_release(task.id()), 0);
    EXPECT_TRUE(eventually([&] { return find(task.id(), "exported_number", &address) == -ESRCH; }));
}

TEST_F(lookup, finds_the_roots)
{
    void *address = nullptr;
    ASSERT_EQ(find(ONESPACE_ROOT, "number_of_the_root", &address), 0);
    EXPECT_EQ(address, &number_of_the_root);
    ASSERT_EQ(find(ONESPACE_ROOT, "_ZL28file_only_number_of_the_root", &address), 0);
    EXPECT_EQ(address, &file_only_number_of_the_root);
    Member task;
    EXPECT_EQ(task.tell("lookup", ONESPACE_ROOT, "number_of_the_root").address,
              &number_of_the_root);
}

TEST_F(lookup, works_for_static_programs)
{
    Task task({program("plain-static"), "wait"});
    void *address = nullptr;
    EXPECT_EQ(task.line(), "waiting");
    ASSERT_EQ(find(task.id(), "counter", &address), 0);
    EXPECT_EQ(*static_cast<int *>(address), 5);
}

TEST_F(lookup, works_for_musl_programs)
{
    if (!is_built("plain-musl"))
        GTEST_SKIP() << "needs musl-gcc";
    Task task({program("plain-musl"), "wait"});
    void *address = nullptr;
    EXPECT_EQ(task.line(), "waiting");
    ASSERT_EQ(find(task.id(), "counter", &address), 0);
    EXPECT_EQ(*static_cast<int *>(address), 5);
    EXPECT_EQ(find(task.id(), "qsort", &address), 0);
}

TEST_F(lookup, survives_the_tasks_death_at_any_moment)
{
    for (int i = 0; i < 20; i++) {
        Member task;
        EXPECT_GT(task.tell("self").result, 0);
        std::thread killer([&] {
            sleep_ms(i % 4);
            task.kill();
        });
        void *address = nullptr;
        int result;
        do
            result = find(task.id(), "no_such_symbol_anywhere", &address);
        while (result == -ENOENT);
        EXPECT_EQ(result, -ESRCH);
        killer.join();
        EXPECT_EQ(task.wait(), SIGKILL);
    }
}
