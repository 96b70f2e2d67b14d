// tests/interpose/mappings_test.cpp: mappings of all kinds can be had, and lie in the task's range.
#include <fstream>
#include <set>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

using mappings = SpaceTest;

// The scene prints the lowest and the highest address that it was given.
static void expect_in_range(const Words &words, unsigned flags = 0)
{
    Task task(words, [flags](Attr &attr) { attr.flags |= flags; });
    unsigned slot = static_cast<unsigned>(task.id()) % LAYOUT_SLOTS;
    for (int i = 0; i < 2; i++) {
        std::string line = task.line();
        if (line == "none")
            GTEST_SKIP() << "System V segments of this size are not allowed here";
        ASSERT_EQ(line.find_first_not_of("0123456789abcdef"), std::string::npos) << line;
        EXPECT_EQ(layout_slot_of(std::stoull(line, nullptr, 16)), slot) << line;
    }
    EXPECT_EQ(task.finish().status, 0);
}

TEST_F(mappings, of_pages_of_1_gib)
{
    Words words = {program("mappings"), "gib"};
    Outcome process = as_process(words);
    if (process.output.starts_with("none"))
        GTEST_SKIP() << "no pages of 1 GiB here (/sys/kernel/mm/hugepages/hugepages-1048576kB)";
    EXPECT_EQ(process.status, 0) << process.output;
    EXPECT_EQ(as_task(words), process);
}

// The first in the space is at the beginning of the shared ones, which suits huge pages.
TEST_F(mappings, of_less_than_a_huge_page_are_given_back_whole)
{
    auto left = [] {
        std::string text;
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);)
            if (line.find("huge-left") != std::string::npos ||
                line.find("SYSV") != std::string::npos)
                text += line + "\n";
        return text;
    };
    for (const char *kind : {"segment", "file"}) {
        Outcome outcome = as_task({program("mappings"), "short-left", kind});
        if (outcome == exits("none\n"))
            GTEST_SKIP() << "no huge pages here, or no right to segments of them";
        EXPECT_EQ(outcome, exits(""));
        EXPECT_TRUE(eventually([&] { return left().empty(); })) << left();
    }
}

TEST_F(mappings, lie_in_the_range_while_it_has_room_anywhere)
{
    expect_in_range({program("mappings"), "wrap"});
}

TEST_F(mappings, lie_in_the_range_after_it_was_used_up_many_times)
{
    expect_in_range({program("mappings"), "holes"});
    expect_in_range({program("mappings"), "segments"}, ONESPACE_SPAWN_OWN_MAPPINGS);
}

TEST_F(mappings, do_not_replace_what_no_handler_saw)
{
    expect_in_range({program("mappings"), "unseen"});
}

TEST_F(mappings, of_a_task_cannot_forbid_later_tasks_their_code)
{
    EXPECT_EQ(as_task({program("mappings"), "mdwe"}), exits("refused\n"));
    EXPECT_EQ(as_task({program("sbrk"), "locked", "16384"}), exits("zero\n"));
}

// It cannot be undone, so this is the only test of its process.
TEST_F(mappings, unseen_or_not_leave_later_tasks_able_to_run)
{
    if (testing::UnitTest::GetInstance()->test_to_run_count() > 1)
        GTEST_SKIP() << "no space can begin in this process afterwards: ctest runs it by itself";
    Outcome outcome = as_task({program("mappings"), "mdwe-unseen"});
    if (outcome != exits("set\n"))
        GTEST_SKIP() << "PR_SET_MDWE needs Linux 6.3";
    EXPECT_EQ(as_task({program("memory"), "allocate", "10", "1"}), exits("wrong 0\n"));
    EXPECT_EQ(as_task({program("memory"), "allocate", "10", "1"}, as_thread).status, 0);

    rlimit before, none; // without a file for the changed code
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = {0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    Pipe errors;
    int stderr_before = dup(2);
    dup2(errors.write_end.get(), 2);
    int status = as_task({program("memory"), "allocate", "10", "1"}, as_thread).status;
    dup2(stderr_before, 2);
    close(stderr_before);
    errors.write_end.reset();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(WEXITSTATUS(status), 127);
    std::string message = read_all(errors.read_end.get());
    EXPECT_NE(message.find("start it without thread mode"), std::string::npos) << message;
}

// The code and what is constant in one mapping, the data in another, among the other libraries.
TEST_F(mappings, of_libraries_that_are_aligned_to_huge_pages_are_two)
{
    Task task({program("aligned_load"), program("aligned.so")});
    uintptr_t range = layout_range(static_cast<unsigned>(task.id()) % LAYOUT_SLOTS);
    std::string line = task.line();
    unsigned long count = 0, start = 0;
    ASSERT_EQ(sscanf(line.c_str(), "%lu %lx", &count, &start), 2) << line;
    EXPECT_EQ(count, 2u);
    EXPECT_GE(start, range + LAYOUT_FILES);
    EXPECT_LT(start, range + LAYOUT_MAPPINGS);
}

TEST_F(mappings, of_libraries_that_are_aligned_to_huge_pages_work_with_code_apart)
{
    Outcome task = as_task({program("aligned_load"), program("aligned-separate.so")});
    EXPECT_EQ(task.status, 0) << task.output;
}

static std::string after(Task &task, const std::string &letter)
{
    task.write_line(letter);
    return task.line();
}

// RDMA libraries mark what they have registered, perhaps another task's memory, and each fork
// counts.
TEST_F(mappings, that_forked_children_shall_not_have_are_marked_while_a_task_wants_it)
{
    Task owner({program("mappings"), "marks"});
    std::string place = owner.line();
    auto other = std::make_unique<Task>(Words{program("mappings"), "marks", place});
    EXPECT_EQ(other->line(), place);
    EXPECT_EQ(after(owner, "f"), "there");
    EXPECT_EQ(after(*other, "m"), "done");
    EXPECT_EQ(after(owner, "f"), "missing");
    EXPECT_EQ(after(owner, "m"), "done");
    EXPECT_EQ(after(*other, "u"), "done");
    EXPECT_EQ(after(owner, "f"), "missing") << "the owner's mark";
    EXPECT_EQ(after(*other, "f"), "missing");
    EXPECT_EQ(after(owner, "u"), "done");
    EXPECT_EQ(after(owner, "f"), "there");
    for (const char *replaces : {"r", "o"}) { // a new mapping is not marked
        EXPECT_EQ(after(owner, "m"), "done");
        EXPECT_EQ(after(owner, replaces), "done");
        EXPECT_EQ(after(*other, "m"), "done");
        EXPECT_EQ(after(*other, "u"), "done");
        EXPECT_EQ(after(owner, "f"), "there");
    }
    EXPECT_EQ(after(*other, "m"), "done");
    other->kill_and_wait();
    EXPECT_TRUE(eventually([&] { return after(owner, "f") == "there"; }))
        << "the mark of a task that has ended";
}

// ---- At addresses of the program's choice, outside of its range ----

// Counts in this process, which has the memory of all tasks.
static int count_pieces()
{
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("memfd:pieces") != std::string::npos;
    return count;
}

TEST_F(mappings, in_pieces_of_reserved_addresses_go_with_a_killed_task)
{
    for (const char *scene : {"reserve", "scattered"}) {
        Task task({program("pieces"), scene, "1000"});
        std::string output = task.line();
        EXPECT_TRUE(output == "mapped" || output.ends_with(" wrong 0")) << output;
        EXPECT_GE(count_pieces(), 900);
        task.kill_and_wait();
        EXPECT_TRUE(eventually([] { return count_pieces() == 0; })) << scene << count_pieces();
    }
    EXPECT_EQ(probe_overflows("mappings"), 0);
}

TEST_F(mappings, over_those_of_another_task_belong_to_the_task_that_made_them)
{
    const char *place = "0x400000000";
    auto first = std::make_unique<Task>(Words{program("pieces"), "over", place, "a"});
    EXPECT_EQ(first->line(), "mapped");
    Task second({program("pieces"), "over", place, "b"});
    EXPECT_EQ(second.line(), "mapped");
    EXPECT_EQ(onespace_owner(reinterpret_cast<void *>(0x400000000)), second.id());
    first->kill_and_wait();
    EXPECT_TRUE(eventually([] { return probe_slots() == 1; }));
    second.write_line("");
    EXPECT_EQ(second.line(), "b b");
}

// A GPU can address 1 TiB.
TEST_F(mappings, at_a_low_hint_that_is_taken_get_another_low_address)
{
    std::vector<std::unique_ptr<Task>> tasks;
    std::set<uint64_t> places;
    for (int i = 0; i < 8; i++) {
        tasks.push_back(std::make_unique<Task>(Words{program("pieces"), "reserve", "1000"}));
        std::string output = tasks.back()->line();
        EXPECT_TRUE(output.ends_with(" wrong 0")) << output;
        places.insert(std::stoull(output, nullptr, 16));
    }
    EXPECT_EQ(places.size(), 8u);
    EXPECT_EQ(*places.begin(), 0x200000000u);
    EXPECT_LT(*places.rbegin(), UINT64_C(1) << 40);
    EXPECT_EQ(count_pieces(), 8 * 900);
    for (int i : {7, 3, 0}) {
        tasks[static_cast<size_t>(i)]->kill_and_wait();
        tasks.erase(tasks.begin() + i);
    }
    EXPECT_TRUE(eventually([] { return count_pieces() == 5 * 900; })) << count_pieces();
    for (auto &task : tasks) {
        task->write_line("");
        std::string output = task->line();
        EXPECT_TRUE(output.ends_with(" wrong 0")) << output;
        task->kill_and_wait();
    }
    EXPECT_TRUE(eventually([] { return count_pieces() == 0; })) << count_pieces();
    EXPECT_EQ(probe_overflows("mappings"), 0);
}
