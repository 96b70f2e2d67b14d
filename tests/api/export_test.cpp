// tests/api/export_test.cpp: publishing memory under names.
#include "member.hpp"
#include "probe.h"

using namespace fixture;

using exports = SpaceTest;

static int number = 77;

TEST_F(exports, of_the_root_are_found_by_tasks)
{
    ASSERT_EQ(onespace_export("root's", &number, sizeof(number)), 0);
    Member task;
    Answer found = task.tell("import", ONESPACE_ROOT, "root's");
    EXPECT_EQ(found.result, 0);
    EXPECT_EQ(found.address, &number);
    EXPECT_EQ(task.tell("read", hex(found.address)).result, 77);
    EXPECT_EQ(task.tell("write", hex(found.address), 78).result, 78);
    EXPECT_EQ(*static_cast<volatile int *>(&number), 78);
    EXPECT_EQ(task.tell("release", ONESPACE_ROOT).result, 0);
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(onespace_unexport("root's"), 0);
}

TEST_F(exports, of_tasks_are_found_by_tasks_and_the_root)
{
    Member first, second;
    Answer made = first.tell("export", "mine", 5),
           found = second.tell("import", first.id(), "mine");
    EXPECT_EQ(found.result, 0);
    EXPECT_EQ(found.address, made.address);
    void *address = nullptr;
    size_t size = 0;
    EXPECT_EQ(onespace_import(first.id(), "mine", &address, &size, 0), 0);
    EXPECT_EQ(address, made.address);
    EXPECT_EQ(size, sizeof(int));
    EXPECT_EQ(second.tell("write", hex(found.address), 6).result, 6);
    EXPECT_EQ(*static_cast<int *>(address), 6);
    EXPECT_EQ(onespace_release(first.id()), 0);
}

TEST_F(exports, names_are_each_members_own)
{
    Member first, second;
    EXPECT_EQ(first.tell("export", "same", 1).result, 0);
    EXPECT_EQ(second.tell("export", "same", 2).result, 0);
    ASSERT_EQ(onespace_export("same", &number, sizeof(number)), 0);
    Member third;
    EXPECT_EQ(third.tell("import", first.id(), "same").number(), 1);
    EXPECT_EQ(third.tell("import", second.id(), "same").number(), 2);
    EXPECT_EQ(third.tell("import", 0, "same").address, &number);
    for (Member *task : {&first, &second, &third})
        EXPECT_EQ(task->finish().status, 0);
    EXPECT_EQ(onespace_unexport("same"), 0);
}

TEST_F(exports, names_are_unique_per_member)
{
    ASSERT_EQ(onespace_export("twice", &number, 4), 0);
    EXPECT_EQ(onespace_export("twice", &number, 4), -EEXIST);
    ASSERT_EQ(onespace_unexport("twice"), 0);
    EXPECT_EQ(onespace_unexport("twice"), -ENOENT);
    ASSERT_EQ(onespace_export("twice", &number, 4), 0);
    ASSERT_EQ(onespace_unexport("twice"), 0);
}

TEST_F(exports, names_have_a_length)
{
    std::string longest(ONESPACE_NAME_MAX, 'n'), too_long(ONESPACE_NAME_MAX + 1, 'n');
    void *address = nullptr;
    EXPECT_EQ(onespace_export(longest.c_str(), &number, 4), 0);
    EXPECT_EQ(onespace_import(0, longest.c_str(), &address, nullptr, 0), 0);
    EXPECT_EQ(onespace_release(0), 0);
    EXPECT_EQ(onespace_unexport(longest.c_str()), 0);
    EXPECT_EQ(onespace_export(too_long.c_str(), &number, 4), -ENAMETOOLONG);
    EXPECT_EQ(onespace_import(0, too_long.c_str(), &address, nullptr, 0), -ENAMETOOLONG);
    EXPECT_EQ(onespace_unexport(too_long.c_str()), -ENAMETOOLONG);
    EXPECT_EQ(onespace_export("", &number, 4), -EINVAL);
    EXPECT_EQ(onespace_export(nullptr, &number, 4), -EINVAL);
    EXPECT_EQ(onespace_unexport(""), -EINVAL);
    EXPECT_EQ(onespace_import(0, "", &address, nullptr, 0), -EINVAL);
    EXPECT_EQ(onespace_import(0, nullptr, &address, nullptr, 0), -EINVAL);
}

TEST_F(exports, may_be_ten_thousand)
{
    Member task;
    EXPECT_EQ(task.tell("export", "first", 1).result, 0);
    EXPECT_EQ(task.tell("export-many", "name", 10000).result, 10000);
    for (int i = 0; i < 10000; i += 777) {
        void *address = nullptr;
        std::string name = "name" + std::to_string(i);
        ASSERT_EQ(onespace_import(task.id(), name.c_str(), &address, nullptr, 0), 0) << name;
        ASSERT_EQ(onespace_release(task.id()), 0);
    }
    EXPECT_EQ(task.tell("unexport-many", "name", 10000).result, 10000);
    EXPECT_EQ(probe_exports(), 1);
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(probe_exports(), 0);
}

TEST_F(exports, have_a_limit_and_can_be_made_again_after_it)
{
    Member task;
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(task.tell("export-many", "name", 16384 + 10).result, 16384);
        EXPECT_EQ(onespace_export("one more", &number, 4), -ENOSPC);
        EXPECT_EQ(task.tell("unexport-many", "name", 16384).result, 16384);
        EXPECT_EQ(onespace_export("one more", &number, 4), 0);
        EXPECT_EQ(onespace_unexport("one more"), 0);
    }
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(probe_exports(), 0);
}

// More names than the table has entries: what is gone must not lengthen the search for others.
TEST_F(exports, stay_close_when_a_hundred_thousand_come_and_go)
{
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(onespace_export(("standing" + std::to_string(i)).c_str(), &number, 4), 0);
    for (int i = 0; i < 100000; i++) {
        std::string name = "passing" + std::to_string(i);
        ASSERT_EQ(onespace_export(name.c_str(), &number, 4), 0);
        ASSERT_EQ(onespace_unexport(name.c_str()), 0);
    }
    int longest, mean;
    probe_search_steps(&longest, &mean);
    EXPECT_LE(longest, 16);
    void *address;
    for (int i = 0; i < 1000; i++) {
        std::string which = std::to_string(i);
        EXPECT_EQ(onespace_import(0, ("standing" + which).c_str(), &address, nullptr, 0), 0);
        EXPECT_EQ(onespace_import(0, ("passing" + which).c_str(), &address, nullptr, 0),
                  -ETIMEDOUT);
        EXPECT_EQ(onespace_release(0), 0);
    }
}

TEST_F(exports, stay_close_on_average_when_the_table_was_full)
{
    Member task;
    EXPECT_EQ(task.tell("export-many", "name", 16384).result, 16384);
    EXPECT_EQ(task.tell("unexport-many", "name", 16384).result, 16384);
    int longest, mean;
    probe_search_steps(&longest, &mean);
    EXPECT_LE(mean, 64);
}

// A reader that meets an entry while it changes hands gets one name's value or the other's.
TEST_F(exports, are_never_read_half)
{
    std::atomic<bool> over = false;
    std::atomic<int> found = 0;
    std::thread reader([&] {
        void *address;
        size_t size;
        while (!over)
            if (onespace_import(0, "changing", &address, &size, 0) == 0) {
                EXPECT_EQ(reinterpret_cast<size_t>(address), size);
                EXPECT_EQ(onespace_release(0), 0);
                found++;
            }
    });
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(Patience);
    for (size_t i = 1; found < 20000 && std::chrono::steady_clock::now() < end; i++) {
        EXPECT_EQ(onespace_export("changing", reinterpret_cast<void *>(i), i), 0);
        EXPECT_EQ(onespace_unexport("changing"), 0);
    }
    over = true;
    reader.join();
    EXPECT_GT(found, 0);
}

TEST_F(exports, end_with_their_owner)
{
    Member task;
    EXPECT_EQ(task.tell("export-many", "name", 100).result, 100);
    EXPECT_EQ(probe_exports(), 100);
    task.kill_and_wait();
    EXPECT_EQ(probe_exports(), 0);
}

TEST_F(exports, from_several_threads_are_all_there)
{
    std::vector<std::thread> threads;
    std::atomic<int> twice = 0;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 500; i++) {
                std::string own = std::to_string(t) + "." + std::to_string(i),
                            shared = std::to_string(i);
                EXPECT_EQ(onespace_export(own.c_str(), &number, 4), 0);
                twice += onespace_export(shared.c_str(), &number, 4) == -EEXIST;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(twice, 3 * 500);
    EXPECT_EQ(probe_exports(), 5 * 500);
}
