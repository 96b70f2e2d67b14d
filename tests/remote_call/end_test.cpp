// tests/remote_call/end_test.cpp: calls that do not return, and members that end.
#include "caller.hpp"

#include <atomic>
#include <cfenv>
#include <random>

using namespace fixture;
using namespace caller;

using call_end = SpaceTest;

TEST_F(call_end, by_an_exception_is_an_error_with_its_type)
{
    Callee callee;
    const char *text = "too cold";
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(callee.call("throws", text), -ECANCELED);
        EXPECT_TRUE(says("std::runtime_error")) << message();
        EXPECT_EQ(callee.call("throws"), -ECANCELED);
        EXPECT_TRUE(says("catches: int")) << message();
    }
    EXPECT_EQ(callee.call("how_often_unwound"), 0);
    EXPECT_EQ(callee.value, 6);
    EXPECT_EQ(callee.call("uncaught"), 0);
    EXPECT_EQ(callee.value, 0);
    EXPECT_EQ(callee.call("use_heap", 10), 0);
}

TEST_F(call_end, by_an_exception_restores_the_rounding_of_the_caller)
{
    Callee callee;
    fesetround(FE_DOWNWARD);
    EXPECT_EQ(callee.call("throws"), -ECANCELED);
    EXPECT_EQ(fegetround(), FE_DOWNWARD);
    fesetround(FE_TONEAREST);
}

TEST_F(call_end, of_the_thread_unwinds_and_gets_another_donor)
{
    Callee callee;
    EXPECT_EQ(callee.call("visit"), 0);
    for (const char *function : {"ends_its_thread", "cancels_itself"}) {
        for (int i = 0; i < 40; i++) {
            EXPECT_EQ(callee.call(function), -ECANCELED);
            EXPECT_TRUE(says("has ended its thread")) << message();
            EXPECT_EQ(callee.call("visit"), 0) << message();
            EXPECT_EQ(callee.value, 1);
        }
    }
    EXPECT_EQ(callee.call("how_often_unwound"), 0);
    EXPECT_EQ(callee.value, 80);
}

static intptr_t throws_back(void *)
{
    throw std::string("in the root");
}

TEST_F(call_end, of_a_call_back_by_an_exception_reaches_the_callee_as_an_error)
{
    Callee callee;
    Onward onward = {ONESPACE_ROOT, address_of(throws_back), 0, 0, 0};
    EXPECT_EQ(callee.call("passes_on", &onward), 0);
    EXPECT_EQ(onward.result, -ECANCELED);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
}

// The call runs in a thread of its own; `kill` is called once the function runs.
static int result_when(Callee &callee, const char *function, const std::function<void()> &kill)
{
    volatile int began = 0;
    int result = 0;
    auto *address = callee.function(function);
    std::thread thread([&] {
        result = onespace_call(callee.id(), address, const_cast<int *>(&began), nullptr);
        if (result == -EOWNERDEAD && !says("has ended during the call"))
            result = 1;
    });
    EXPECT_TRUE(eventually([&] { return began == 1; }));
    kill();
    thread.join();
    return result;
}

TEST_F(call_end, of_the_callee_ends_a_call_that_waits_for_ever)
{
    Callee callee;
    EXPECT_EQ(result_when(callee, "waits_for_ever", [&] { callee.kill(); }), -EOWNERDEAD);
    EXPECT_EQ(callee.wait(), SIGKILL);
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

TEST_F(call_end, of_the_callee_ends_a_call_that_spins)
{
    Callee callee;
    EXPECT_EQ(result_when(callee, "spins_for_ever", [&] { callee.kill(SIGTERM); }), -EOWNERDEAD);
    EXPECT_EQ(callee.wait(), SIGTERM);
}

// Both thread mode and calls use the signal that glibc reserves.
TEST_F(call_end, of_the_callee_ends_a_call_of_a_process_with_tasks_in_thread_mode)
{
    for (int i = 0; i < 2; i++) {
        Callee callee;
        EXPECT_EQ(callee.call("visit"), 0);
        Task task({program("callee"), "thread-mode"}, as_thread);
        EXPECT_EQ(task.wait(), 0);
        EXPECT_EQ(result_when(callee, "waits_for_ever", [&] { callee.kill(); }), -EOWNERDEAD);
        EXPECT_EQ(callee.wait(), SIGKILL);
        EXPECT_EQ(setegid(getegid()), 0);
    }
}

TEST_F(call_end, of_the_callee_by_execve_ends_a_call)
{
    Callee callee;
    EXPECT_EQ(result_when(callee, "waits_for_ever", [&] { callee.write_line("x"); }), -EOWNERDEAD);
}

TEST_F(call_end, of_the_callee_before_is_an_error)
{
    Callee callee;
    auto *function = callee.function("add_global");
    int id = callee.id();
    callee.kill();
    EXPECT_TRUE(eventually([&] { return has_ended(id); }));
    EXPECT_EQ(onespace_call(id, function, nullptr, nullptr), -EOWNERDEAD);
    EXPECT_EQ(callee.wait(), SIGKILL);
    EXPECT_TRUE(
        eventually([&] { return onespace_call(id, function, nullptr, nullptr) == -ESRCH; }));
    EXPECT_TRUE(says("there is no member " + std::to_string(id))) << message();
}

static std::atomic<int> inner_began, inner_may_end;

static intptr_t waits_for_leave(void *)
{
    inner_began = 1;
    while (!inner_may_end)
        sleep_ms(1);
    return 5;
}

// The thread is in the root's own context again when the callee between dies: it goes on, and the
// outer call ends.
TEST_F(call_end, of_the_callee_between_ends_the_outer_call_later)
{
    Callee callee;
    Onward onward = {ONESPACE_ROOT, address_of(waits_for_leave), 0, 1, 0};
    inner_began = 0;
    inner_may_end = 0;
    auto *function = callee.function("passes_on");
    int result = 0;
    std::thread thread([&] { result = onespace_call(callee.id(), function, &onward, nullptr); });
    EXPECT_TRUE(eventually([] { return inner_began == 1; }));
    callee.kill_and_wait();
    sleep_ms(20);
    inner_may_end = 1;
    thread.join();
    EXPECT_EQ(result, -EOWNERDEAD);
    EXPECT_EQ(onward.result, 1);
}

TEST_F(call_end, of_the_innermost_callee_is_reported_to_the_one_between)
{
    Callee outer, inner;
    volatile int began = 0;
    Onward onward = {inner.id(), address_of(inner.function("waits_for_ever")),
                     reinterpret_cast<intptr_t>(&began), 1, 0};
    auto *function = outer.function("passes_on");
    int result = 1;
    std::thread thread([&] { result = onespace_call(outer.id(), function, &onward, nullptr); });
    EXPECT_TRUE(eventually([&] { return began == 1; }));
    inner.kill();
    thread.join();
    EXPECT_EQ(inner.wait(), SIGKILL);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(onward.result, -EOWNERDEAD);
    EXPECT_EQ(outer.call("use_heap", 10), 0);
}

// More often than there are donors.
TEST_F(call_end, of_the_caller_gives_its_donor_up)
{
    Callee callee;
    EXPECT_EQ(callee.call("visit"), 0);
    for (int i = 0; i < ONESPACE_CALL_LENDERS + 6; i++) {
        Task task({program("callee"), "spin", std::to_string(callee.id())});
        ASSERT_EQ(task.line(), "spins");
        task.kill_and_wait();
    }
    EXPECT_EQ(callee.call("use_heap", 10), 0) << message();
}

TEST_F(call_end, by_a_crash_is_the_callers)
{
    Callee callee;
    Task task({program("callee"), "crash", std::to_string(callee.id())});
    EXPECT_EQ(task.finish(), (Outcome{"", SIGSEGV}));
    EXPECT_EQ(callee.call("use_heap", 10), 0) << message();
}

// Callees that are killed at any moment of calls from several threads, and of calls back.
TEST_F(call_end, of_callees_at_random)
{
    int rounds = want_long() ? 300 : 12;
    const char *given = getenv("ONESPACE_SEED");
    unsigned seed = given ? static_cast<unsigned>(atoi(given)) : std::random_device()();
    std::mt19937 random(seed);
    SCOPED_TRACE("ONESPACE_SEED=" + std::to_string(seed));
    for (int round = 0; round < rounds; round++) {
        Callee callee;
        auto *use_heap = callee.function("use_heap"), *passes_on = callee.function("passes_on");
        std::atomic<int> odd = 0, ended = 0, calls = 0;
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++)
            threads.emplace_back([&, t] {
                for (int result = 0; result == 0; calls++) {
                    Onward onward = {ONESPACE_ROOT, address_of(throws_back), 0, 0, 0};
                    result = t % 2 ? onespace_call(callee.id(), passes_on, &onward, nullptr)
                                   : onespace_call(callee.id(), use_heap,
                                                   reinterpret_cast<void *>(20), nullptr);
                    odd += result != 0 && result != -EOWNERDEAD && result != -ESRCH;
                    ended += result == -EOWNERDEAD || result == -ESRCH;
                }
            });
        EXPECT_TRUE(eventually([&] { return calls > 20; }));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        callee.kill();
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(odd, 0) << message();
        EXPECT_EQ(ended, 4);
        EXPECT_EQ(callee.wait(), SIGKILL);
    }
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}
