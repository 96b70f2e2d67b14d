// tests/pip/share_test.cpp: names, addresses, memory that outlives its task, blocks given back.
#include "fixture.hpp"

using namespace pip;

class pip_names : public PipTest
{
};
class pip_addresses : public PipTest
{
};

TEST_F(pip_names, keep_their_rules)
{
    EXPECT_EQ(play({"names"}), 0);
}

TEST_F(pip_names, by_the_thousand_are_found)
{
    EXPECT_EQ(play({"export-many"}), 0);
}

TEST_F(pip_names, may_be_imported_from_the_root_any_number_of_times)
{
    EXPECT_EQ(pip_named_export(&memory, "often"), 0);
    EXPECT_EQ(play({"import-often"}), 0);
}

TEST_F(pip_names, beyond_the_table_are_refused)
{
    EXPECT_EQ(play({"export-all"}), ENOMEM);
    // The names of the ended task go when its PiP id is used again.
    EXPECT_EQ(play({"export-many"}), 0);
}

TEST_F(pip_names, of_a_task_reach_root_and_tasks)
{
    int *number = nullptr;
    ASSERT_EQ(spawn({"export", "number", "wait"}, 0), 0);
    ASSERT_EQ(spawn({"import", "0", "number", "4711"}, 1), 0);
    ASSERT_EQ(pip_named_import(0, reinterpret_cast<void **>(&number), "%s", "number"), 0);
    EXPECT_EQ(*number, 4711);
    EXPECT_EQ(wait(1), 0);
    EXPECT_EQ(pip_named_export(number, "go"), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_names, are_waited_for_before_the_task_is_spawned)
{
    ASSERT_EQ(spawn({"import", "1", "number", "4711"}, 0), 0);
    sleep_ms(30);
    EXPECT_EQ(pip_trywait(0, nullptr), ECHILD) << "it waits";
    ASSERT_EQ(spawn({"export", "number"}, 1), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_names, of_a_task_that_only_the_root_could_spawn_are_a_deadlock)
{
    void *address;
    EXPECT_EQ(pip_named_import(5, &address, "x"), EDEADLK);
    EXPECT_EQ(pip_named_tryimport(5, &address, "x"), EAGAIN);
}

TEST_F(pip_names, of_a_task_that_dies_end_the_wait)
{
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    ASSERT_EQ(spawn({"import", "0", "never"}, 1), 0);
    int result = -1;
    std::thread waiter([&] { result = pip_named_import(0, nullptr, "never"); });
    sleep_ms(30);
    EXPECT_EQ(pip_kill(0, SIGKILL), 0);
    waiter.join();
    EXPECT_EQ(result, ECANCELED);
    EXPECT_EQ(wait(1), ECANCELED << 8);
    EXPECT_EQ(wait(0), SIGKILL);
    EXPECT_EQ(pip_named_import(0, nullptr, "never"), ECANCELED) << "after the wait too";
    EXPECT_EQ(pip_named_tryimport(0, nullptr, "never"), ECANCELED);
}

TEST_F(pip_names, of_a_task_that_executes_another_program_end)
{
    ASSERT_EQ(spawn({"export", "number", "exec"}, 0), 0);
    EXPECT_TRUE(eventually([] { return pip_named_tryimport(0, nullptr, "number") == ECANCELED; }));
    EXPECT_EQ(pip_kill(0, SIGKILL), 0);
    EXPECT_EQ(wait(0), SIGKILL);
}

TEST_F(pip_names, of_an_ended_task_last_until_its_id_is_used_again)
{
    int *number = nullptr;
    EXPECT_EQ(play({"export", "number"}), 0);
    ASSERT_EQ(pip_named_import(0, reinterpret_cast<void **>(&number), "number"), 0);
    EXPECT_EQ(*number, 4711);
    ASSERT_EQ(spawn({"import", "0", "number", "4711"}, 1), 0);
    EXPECT_EQ(wait(1), 0);
    EXPECT_EQ(play({"exit"}), 0);
    EXPECT_EQ(pip_named_tryimport(0, nullptr, "number"), ECANCELED);
}

TEST_F(pip_addresses, without_names_are_exchanged)
{
    void *address = this;
    EXPECT_EQ(pip_import(0, &address), ESRCH);
    EXPECT_EQ(address, this);
    ASSERT_EQ(pip_export(&memory), 0);
    ASSERT_EQ(spawn({"plain-export"}, 0), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 1; }));
    ASSERT_EQ(pip_import(0, &address), 0);
    EXPECT_EQ(*static_cast<int *>(address), 4711);
    EXPECT_EQ(pip_import(PIP_PIPID_ROOT, nullptr), 0);
    EXPECT_EQ(pip_named_export(&memory, "go"), 0);
    EXPECT_EQ(wait(0), 0);
}

TEST_F(pip_addresses, of_symbols_are_found_right_after_the_spawn)
{
    int *number = nullptr;
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    ASSERT_EQ(pip_get_addr(0, "number_of_the_task", reinterpret_cast<void **>(&number)), 0);
    EXPECT_EQ(*number, 4711);
    void *address = this;
    EXPECT_EQ(pip_get_addr(0, "no_such_symbol", &address), ENOENT);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(pip_get_addr(0, nullptr, &address), EINVAL);
    EXPECT_EQ(pip_get_addr(0, "", &address), EINVAL);
    EXPECT_EQ(pip_get_addr(1, "main", &address), ESRCH);
    EXPECT_EQ(pip_get_addr(PIP_PIPID_ROOT, "main", &address), 0);
    EXPECT_EQ(pip_get_addr(PIP_PIPID_MYSELF, "main", nullptr), 0);
}

// The root holds the memory, for tasks too.
TEST_F(pip_addresses, of_symbols_of_an_ended_task_are_found_until_its_id_is_used_again)
{
    int *first = nullptr, *second = nullptr;
    ASSERT_EQ(spawn({"set-number", "815"}, 0), 0);
    ASSERT_EQ(wait(0), 0);
    ASSERT_EQ(pip_get_addr(0, "number_of_the_task", reinterpret_cast<void **>(&first)), 0);
    EXPECT_EQ(*first, 815);
    ASSERT_EQ(spawn({"look-up", "0", "number_of_the_task", "815"}, 1), 0);
    EXPECT_EQ(wait(1), 0);
    ASSERT_EQ(spawn({"pause"}, 0), 0);
    ASSERT_EQ(pip_get_addr(0, "number_of_the_task", reinterpret_cast<void **>(&second)), 0);
    EXPECT_EQ(*second, 4711);
}

TEST_F(pip_addresses, of_blocks_can_be_freed_by_others)
{
    memory.pointer = pip_malloc(5000);
    ASSERT_EQ(spawn({"free"}, 0), 0);
    ASSERT_TRUE(eventually([&] { return memory.go == 1; }));
    auto *block = static_cast<char *>(memory.pointer);
    EXPECT_EQ(block[999], 7);
    pip_free(block);
    EXPECT_EQ(pip_named_export(&memory, "freed"), 0);
    EXPECT_EQ(wait(0), 0);
    void *aligned = nullptr;
    EXPECT_EQ(pip_posix_memalign(&aligned, 4096, 100), 0); // takes our own back
    EXPECT_GE(pip_malloc_usable_size(aligned), 100u);
    pip_free(aligned);
    pip_free(nullptr);
}
