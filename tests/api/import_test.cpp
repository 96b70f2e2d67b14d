// tests/api/import_test.cpp: waiting for names.
#include "member.hpp"

using namespace fixture;

using imports = SpaceTest;

static int number = 7;

TEST_F(imports, wait_until_the_name_is_there)
{
    Member task;
    std::thread late([&] {
        sleep_ms(100);
        EXPECT_EQ(task.tell("export", "late", 3).result, 0);
    });
    void *address = nullptr;
    EXPECT_EQ(onespace_import(task.id(), "late", &address, nullptr, Patience), 0);
    EXPECT_EQ(*static_cast<int *>(address), 3);
    EXPECT_EQ(onespace_release(task.id()), 0);
    late.join();
}

TEST_F(imports, end_at_their_timeout)
{
    Member task;
    void *address = &number;
    size_t size = 99;
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(onespace_import(task.id(), "missing", &address, &size, 0), -ETIMEDOUT);
    EXPECT_EQ(onespace_import(task.id(), "missing", &address, &size, 100), -ETIMEDOUT);
    auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_GE(waited, std::chrono::milliseconds(100));
    EXPECT_LT(waited, std::chrono::milliseconds(Patience));
    EXPECT_EQ(address, &number) << "untouched on failure";
    EXPECT_EQ(size, 99u) << "untouched on failure";
    EXPECT_EQ(onespace_release(task.id()), -EINVAL) << "a failed import holds nothing";
}

TEST_F(imports, end_when_the_owner_does)
{
    for (int i = 0; i < 100; i++) {
        Member task;
        EXPECT_GT(task.tell("self").result, 0);
        std::thread killer([&] {
            sleep_ms(i % 3);
            task.kill();
        });
        void *address;
        auto start = std::chrono::steady_clock::now();
        EXPECT_EQ(onespace_import(task.id(), "missing", &address, nullptr, Patience), -EOWNERDEAD)
            << "round " << i;
        killer.join();
        EXPECT_EQ(task.wait(), SIGKILL);
        ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(Patience / 2))
            << "round " << i;
    }
}

TEST_F(imports, end_when_an_owner_whose_memory_is_held_does)
{
    for (int i = 0; i < 100; i++) {
        Member task;
        void *address;
        EXPECT_EQ(task.tell("export", "held").result, 0);
        EXPECT_EQ(onespace_import(task.id(), "held", &address, nullptr, 0), 0);
        std::thread killer([&] {
            sleep_ms(i % 3);
            task.kill();
        });
        EXPECT_EQ(onespace_import(task.id(), "missing", &address, nullptr, Patience), -EOWNERDEAD)
            << "round " << i;
        killer.join();
        EXPECT_EQ(task.wait(), SIGKILL);
        EXPECT_EQ(onespace_release(task.id()), 0);
        if (HasFailure())
            break;
    }
}

TEST_F(imports, of_what_is_no_member_are_refused)
{
    void *address;
    EXPECT_EQ(onespace_import(12345, "name", &address, nullptr, 1000), -ESRCH);
    EXPECT_EQ(onespace_import(-1, "name", &address, nullptr, 1000), -ESRCH);
    EXPECT_EQ(onespace_import(ONESPACE_ROOT, "name", nullptr, nullptr, 0), -EINVAL);
}

TEST_F(imports, of_an_ended_task_are_refused)
{
    Member task;
    void *address;
    EXPECT_EQ(task.tell("export", "name").result, 0);
    task.close_input();
    ASSERT_TRUE(eventually([&] { return has_ended(task.id()); }));
    EXPECT_EQ(onespace_import(task.id(), "name", &address, nullptr, Patience), -EOWNERDEAD);
    EXPECT_EQ(task.wait(), 0);
    EXPECT_TRUE(eventually(
        [&] { return onespace_import(task.id(), "name", &address, nullptr, 0) == -ESRCH; }));
}

TEST_F(imports, of_ones_own_missing_name_would_wait_for_ever)
{
    void *address = nullptr;
    EXPECT_EQ(onespace_import(ONESPACE_ROOT, "mine", &address, nullptr, -1), -EDEADLK);
    EXPECT_EQ(onespace_import(ONESPACE_ROOT, "mine", &address, nullptr, 10), -EDEADLK);
    ASSERT_EQ(onespace_export("mine", &number, 4), 0);
    EXPECT_EQ(onespace_import(ONESPACE_ROOT, "mine", &address, nullptr, -1), 0);
    EXPECT_EQ(address, &number);
    EXPECT_EQ(onespace_release(ONESPACE_ROOT), 0);
    Member task;
    EXPECT_EQ(task.tell("import", task.id(), "mine", -1).result, -EDEADLK);
}

TEST_F(imports, see_what_was_written_before_the_export)
{
    // The pointer leads to data that the owner wrote just before.
    Member writer;
    for (int i = 0; i < 100; i++) {
        std::string name = "round" + std::to_string(i);
        writer.order("export", name, i);
        void *address = nullptr;
        ASSERT_EQ(onespace_import(writer.id(), name.c_str(), &address, nullptr, Patience), 0);
        ASSERT_EQ(*static_cast<int *>(address), i);
        ASSERT_EQ(onespace_release(writer.id()), 0);
        EXPECT_EQ(writer.answer().result, 0);
    }
}

// Without the reaper the owner's end is not reported. The kernel kills the task with the reaper.
TEST(importing, ends_when_the_reaper_was_killed)
{
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    Member task;
    std::ifstream stat("/proc/" + std::to_string(task.pid()) + "/stat");
    std::string ignored;
    int reaper = 0;
    stat >> ignored >> ignored >> ignored >> reaper;
    ASSERT_GT(reaper, 1);
    std::thread killer([&] {
        sleep_ms(100);
        EXPECT_EQ(kill(reaper, SIGKILL), 0);
    });
    void *address;
    EXPECT_EQ(onespace_import(task.id(), "never", &address, nullptr, -1), -EOWNERDEAD);
    killer.join();
    EXPECT_EQ(onespace_import(task.id(), "never", &address, nullptr, 0), -EOWNERDEAD);
    EXPECT_EQ(onespace_wait(task.id(), nullptr, 0), -EOWNERDEAD);
}
