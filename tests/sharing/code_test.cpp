// tests/sharing/code_test.cpp: calling functions of another task: what is sound, and what happens
// otherwise.
#include "sharer.hpp"

using namespace fixture;

using function = SharingTest;

TEST_F(function, that_is_pure_works)
{
    EXPECT_EQ(other->use("pure", owner->make("pure")), "1020");
}

TEST_F(function, has_the_globals_of_its_own_task)
{
    EXPECT_EQ(other->use("global", owner->make("global")), "7");
    EXPECT_EQ(owner->use("global-value"), "7");
    EXPECT_EQ(other->use("global-value"), "0");
}

TEST_F(function, has_the_thread_locals_of_the_caller)
{
    EXPECT_EQ(other->use("thread-local", owner->make("thread-local")), "107");
    EXPECT_EQ(other->use("thread-local-value"), "107");
    EXPECT_EQ(owner->use("thread-local-value"), "100");
}

TEST_F(function, sets_errno_of_the_caller)
{
    std::string place = owner->make("errno");
    EXPECT_EQ(owner->use("errno-clear"), "cleared");
    EXPECT_EQ(other->use("errno", place), "set");
    EXPECT_EQ(owner->use("errno-value"), "not set");
}

// malloc finds some of its lists through a thread-local, which is the caller's, and detects it.
TEST_F(function, that_allocates_ends_the_caller)
{
    other->order("malloc", owner->make("malloc"));
    EXPECT_EQ(finish(other).status, SIGABRT);
}

// The stream's buffer is the owner's, the descriptor the caller's.
TEST_F(function, prints_where_the_caller_prints)
{
    EXPECT_EQ(other->use("printf", owner->make("printf")), "printed");
    EXPECT_EQ(other->line(), "0");
    EXPECT_EQ(other->use("cout", owner->make("cout")), "streamed");
    EXPECT_EQ(other->line(), "0");
}

// The owner's malloc does not serve the caller, nor does its unwinder know the caller's frames.
TEST_F(function, that_throws_ends_the_caller)
{
    other->order("throw", owner->make("throw"));
    EXPECT_EQ(finish(other).status, SIGABRT);
}

TEST_F(function, that_is_virtual_works_while_its_owner_lives)
{
    EXPECT_EQ(other->use("shape", owner->make("shape")), "9 square");
}

// Types local to one source file are compared by the address of their type_info.
TEST_F(function, dynamic_cast_does_not_know_unnamed_types_of_others)
{
    std::string shape = owner->make("shape-unnamed");
    EXPECT_EQ(owner->use("shape", shape), "9 unnamed");
    EXPECT_EQ(other->use("shape", shape), "9 square");
}
