// tests/sharing/data_test.cpp: using data structures and blocks of memory of another task.
#include "sharer.hpp"

using namespace fixture;

using container = SharingTest;

struct Kind {
    const char *name, *sums; // sums: what the other task must find in it
};
class any_container : public SharingTest, public testing::WithParamInterface<Kind>
{
};

TEST_P(any_container, is_read_in_place)
{
    EXPECT_EQ(other->use(GetParam().name, owner->make(GetParam().name)), GetParam().sums);
}

INSTANTIATE_TEST_SUITE_P(of, any_container,
                         testing::Values(Kind{"vector", "500500"}, Kind{"map", "4950 57"},
                                         Kind{"tree", "499500"}),
                         [](const auto &kind) { return std::string(kind.param.name); });

TEST_F(container, vector_grows_in_the_other_task_and_then_in_its_own)
{
    std::string vector = owner->make("vector");
    EXPECT_EQ(other->use("vector-growth", vector), "101000");
    EXPECT_EQ(owner->use("vector", vector), "600500");
    EXPECT_EQ(owner->use("vector-growth", vector), "201000");
    EXPECT_EQ(other->use("vector", vector), "700500");
}

TEST_F(container, map_is_changed_and_deleted_in_the_other_task)
{
    std::string map = owner->make("map");
    EXPECT_EQ(other->use("map-change", map), "51");
    EXPECT_EQ(owner->use("map", map), "2557 57");
    EXPECT_EQ(other->use("map-removal", map), "deleted");
}

TEST_F(container, shared_pointer_counts_in_both_tasks)
{
    std::string pointer = owner->make("shared");
    EXPECT_EQ(other->use("shared", pointer), "2");
    EXPECT_EQ(owner->use("shared-count", pointer), "2");
    EXPECT_EQ(finish(owner).status, 0);
    kill(other); // its copy must not be the last
}

// Why onespace_init creates a thread: libstdc++ and glibc omit atomic instructions in
// single-threaded programs.
TEST_F(container, shared_pointer_counts_atomically_from_the_first_call_on)
{
    Sharer quiet(true);
    EXPECT_EQ(other->use("threads"), "several");
    EXPECT_EQ(quiet.use("threads"), "single");
    EXPECT_EQ(quiet.use("joining"), "joined");
    EXPECT_EQ(quiet.use("threads"), "several");
    EXPECT_EQ(quiet.finish(), exits(""));
}

using block = SharingTest;

TEST_F(block, freed_by_another_task_goes_back_to_its_owner)
{
    std::string address = owner->make("block");
    EXPECT_EQ(other->use("block", address), "other blocks");
    EXPECT_EQ(owner->use("block-again", address), "came back");
}

TEST_F(block, freed_after_its_owners_end_does_no_harm)
{
    void *number;
    Task exporter({program("obey")});
    exporter.write_line("export number 7");
    EXPECT_TRUE(exporter.line().starts_with("0 "));
    ASSERT_EQ(onespace_import(exporter.id(), "number", &number, nullptr, Patience), 0);
    EXPECT_EQ(exporter.finish().status, 0);
    std::ostringstream address;
    address << number;
    EXPECT_EQ(other->use("block", address.str()), "other blocks");
    EXPECT_EQ(onespace_release(exporter.id()), 0);
}

TEST_F(block, freed_in_a_forked_child_stays_in_the_parents)
{
    std::string address = owner->make("block");
    EXPECT_EQ(other->use("block-in-child", address), "freed");
    EXPECT_EQ(owner->use("block-again", address), "is lost"); // which is: still in use
    EXPECT_EQ(owner->use("block-intact", address), "intact");
}

TEST_F(block, reallocated_by_another_task_is_a_clear_error)
{
    std::string address = owner->make("block");
    std::string message =
        "onespace: task " + std::to_string(other->id()) + " calls realloc() on memory of task " +
        std::to_string(owner->id()) +
        ": only that task's malloc knows the size, so allocate a block, copy, and free the "
        "old one\n";
    other->order("block-resize", address);
    EXPECT_EQ(finish(other), (Outcome{message, SIGABRT}));
    EXPECT_EQ(owner->use("block-intact", address), "intact");
}

TEST_F(block, of_the_root_freed_by_a_task_is_a_clear_error)
{
    auto memory = std::make_unique<char[]>(100);
    std::ostringstream address;
    address << static_cast<void *>(memory.get());
    std::string message = "onespace: task " + std::to_string(other->id()) +
                          " calls free() on memory of the root: let the root free it\n";
    other->order("block", address.str());
    EXPECT_EQ(finish(other), (Outcome{message, SIGABRT}));
}

TEST_F(block, passes_through_many_threads_of_both)
{
    std::string queue = owner->make("queue");
    for (auto [producer, consumer] : {std::pair(&owner, &other), std::pair(&other, &owner)}) {
        (*producer)->order("queue-filling", queue);
        EXPECT_EQ((*consumer)->use("queue", queue), "0 wrong");
        EXPECT_EQ((*producer)->line(), "produced");
    }
    EXPECT_EQ(owner->use("in-use"), "0");
    EXPECT_EQ(other->use("in-use"), "0");
}
