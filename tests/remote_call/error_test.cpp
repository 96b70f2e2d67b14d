// tests/remote_call/error_test.cpp: calls that cannot be made: one error each.
#include "caller.hpp"

using namespace fixture;
using namespace caller;

using call_error = SpaceTest;

static intptr_t of_the_root(void *)
{
    return 1;
}

TEST_F(call_error, null_function)
{
    Callee callee;
    EXPECT_EQ(onespace_call(callee.id(), nullptr, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(message(), "the function is NULL");
}

TEST_F(call_error, function_of_another_member)
{
    Callee callee;
    intptr_t value = 17;
    EXPECT_EQ(onespace_call(callee.id(), of_the_root, nullptr, &value), -EINVAL);
    EXPECT_TRUE(says("it is not in that member's memory")) << message();
    EXPECT_EQ(value, 17);
}

TEST_F(call_error, data_of_the_callee_is_no_function)
{
    Callee callee;
    void *global = nullptr;
    ASSERT_EQ(onespace_lookup(callee.id(), "global", &global, nullptr), 0);
    auto *function =
        reinterpret_cast<onespace_call_function *>(reinterpret_cast<uintptr_t>(global));
    EXPECT_EQ(onespace_call(callee.id(), function, nullptr, nullptr), -EINVAL);
    EXPECT_TRUE(says("the memory there is not executable")) << message();
}

TEST_F(call_error, address_that_is_not_mapped)
{
    Callee callee;
    auto *function = reinterpret_cast<onespace_call_function *>(UINT64_C(0x10000));
    EXPECT_EQ(onespace_call(callee.id(), function, nullptr, nullptr), -EINVAL);
}

TEST_F(call_error, no_such_member)
{
    EXPECT_EQ(onespace_call(77, of_the_root, nullptr, nullptr), -ESRCH);
    EXPECT_EQ(onespace_call(-1, of_the_root, nullptr, nullptr), -ESRCH);
    EXPECT_TRUE(says("there is no member -1")) << message();
}

TEST_F(call_error, member_that_does_not_serve)
{
    Task task({program("called")});
    EXPECT_EQ(task.line(), "main");
    auto *function = function_of(task.id(), "add_to_state");
    EXPECT_EQ(onespace_call(task.id(), function, nullptr, nullptr), -ENOTSUP);
    EXPECT_TRUE(says("does not serve calls")) << message();
    EXPECT_EQ(task.finish().output, "state 7\n");
}

static int count_threads(const std::string &name)
{
    int count = 0;
    for (const auto &thread : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(thread.path() / "comm");
        std::string comm;
        std::getline(file, comm);
        count += comm == name;
    }
    return count;
}

TEST_F(call_error, no_donor_at_first)
{
    constexpr size_t Impossible = size_t{1} << 46; // bytes of stack
    pthread_attr_t before, huge;
    ASSERT_EQ(pthread_getattr_default_np(&before), 0);
    ASSERT_EQ(pthread_attr_init(&huge), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&huge, Impossible), 0);
    ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(onespace_call_serve(), -EAGAIN);
        EXPECT_TRUE(says("no donor thread for calls can be created")) << message();
        EXPECT_TRUE(eventually([] { return count_threads("onespace-donors") == 0; }));
    }
    ASSERT_EQ(pthread_setattr_default_np(&before), 0);
    EXPECT_EQ(onespace_call_serve(), 0);
    EXPECT_TRUE(eventually([] { return count_threads("onespace-donors") == 1; }));
    EXPECT_EQ(count_threads("onespace-donor"), 1);
}

TEST_F(call_error, thread_mode)
{
    Task task({program("callee"), "thread-mode"}, as_thread);
    EXPECT_EQ(task.wait(), 0);
    auto with_calls = [](Attr &attr) { attr.flags = ONESPACE_SPAWN_THREAD | ONESPACE_SPAWN_CALLS; };
    EXPECT_EQ(spawn_task({program("called")}, with_calls).id, -EINVAL);
}

TEST_F(call_error, static_program_with_the_flag)
{
    Spawned refused = spawn_task({program("plain-static")},
                                 [](Attr &attr) { attr.flags = ONESPACE_SPAWN_CALLS; });
    EXPECT_EQ(refused.id, -ENOTSUP);
    EXPECT_NE(refused.message.find("cannot serve calls: link it dynamically"), std::string::npos)
        << refused.message;
}

TEST_F(call_error, name_that_is_not_there)
{
    Callee callee;
    const intptr_t none[ONESPACE_CALL_ARGUMENTS] = {};
    EXPECT_EQ(onespace_call_name(callee.id(), "no_such_function", none, nullptr), -ENOENT);
    EXPECT_TRUE(says("has no function 'no_such_function'")) << message();
}

TEST_F(call_error, in_a_forked_child)
{
    Callee callee;
    auto *function = callee.function("add_global");
    pid_t child = fork();
    if (child == 0)
        _exit(onespace_call(callee.id(), function, nullptr, nullptr) == -EPERM ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(call_outside, a_space_is_an_error)
{
    EXPECT_EQ(onespace_call(0, of_the_root, nullptr, nullptr), -EPERM);
    EXPECT_TRUE(says("onespace_init")) << message();
    EXPECT_EQ(onespace_call_serve(), -EPERM);
}
