// tests/api/init_test.cpp: making and ending a space.
#include <pthread.h>
#include <sys/mman.h>

#include "member.hpp"

using namespace fixture;

TEST(init, makes_the_caller_the_root)
{
    EXPECT_EQ(onespace_self(), -EPERM);
    EXPECT_EQ(onespace_number(), -EPERM);
    EXPECT_EQ(onespace_fini(), -EPERM);
    ASSERT_EQ(onespace_init(), ONESPACE_ROOT);
    EXPECT_EQ(onespace_init(), ONESPACE_ROOT);
    EXPECT_EQ(onespace_self(), ONESPACE_ROOT);
    EXPECT_EQ(onespace_pid(ONESPACE_ROOT), getpid());
    EXPECT_EQ(onespace_number(), -ENOENT);
    EXPECT_EQ(onespace_ntasks(), -ENOENT);
    EXPECT_EQ(onespace_fini(), 0);
    EXPECT_EQ(onespace_fini(), -EPERM);
    EXPECT_EQ(onespace_self(), -EPERM);
}

TEST(init, works_again_after_fini_and_leaves_nothing)
{
    Footprint before;
    for (int i = 0; i < 50; i++) {
        ASSERT_EQ(onespace_init(), 0);
        ASSERT_EQ(as_task({"true"}).status, 0);
        ASSERT_EQ(onespace_fini(), 0);
        if (i == 4)
            before = Footprint::now();
    }
    expect_flat(before, 4);
    EXPECT_EQ(waitpid(-1, nullptr, __WALL), -1) << "the reaper is gone";
}

TEST(init, from_a_thread_that_is_not_the_first)
{
    std::thread([] { ASSERT_EQ(onespace_init(), 0); }).join();
    EXPECT_EQ(as_task({program("state"), "exit", "5"}), exits("", 5));
    EXPECT_EQ(onespace_fini(), 0);
}

TEST(init, from_several_threads_makes_one_space)
{
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] { wrong += onespace_init() != ONESPACE_ROOT; });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(as_task({"true"}).status, 0);
    EXPECT_EQ(onespace_fini(), 0);
}

using fini = SpaceTest;

TEST_F(fini, is_refused_while_tasks_live_and_in_tasks)
{
    Member task;
    EXPECT_EQ(task.tell("self").result, task.id());
    EXPECT_EQ(onespace_fini(), -EBUSY);
    EXPECT_EQ(task.tell("self").result, task.id()) << "still a member";
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(as_task({program("member"), "fini"}), exits("-1\n"));
}

TEST_F(fini, throws_uncollected_statuses_away)
{
    Task task({program("state"), "exit", "1"});
    ASSERT_TRUE(eventually([&] { return has_ended(task.id()); }));
    ASSERT_EQ(onespace_fini(), 0);
    ASSERT_EQ(onespace_init(), 0);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 0), -ECHILD);
    EXPECT_EQ(as_task({"true"}).status, 0);
}

class RobustMutex
{
  public:
    explicit RobustMutex(int protocol)
    {
        pthread_mutexattr_t attr;
        pthread_mutexattr_init(&attr);
        pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
        pthread_mutexattr_setprotocol(&attr, protocol);
        pthread_mutex_init(&mutex_, &attr);
    }
    void lock()
    {
        EXPECT_EQ(pthread_mutex_lock(&mutex_), 0);
    }
    void unlock()
    {
        EXPECT_EQ(pthread_mutex_unlock(&mutex_), 0);
    }

  private:
    pthread_mutex_t mutex_;
};

// The membership mark is in the same list of the libc, between them.
TEST(init, then_fini_leaves_robust_mutexes_alone_that_the_caller_has_locked)
{
    for (int protocol : {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT}) {
        RobustMutex before(protocol), after(protocol);
        before.lock();
        ASSERT_EQ(onespace_init(), 0);
        after.lock();
        ASSERT_EQ(onespace_fini(), 0);
        before.unlock();
        after.unlock();
    }
}

TEST(init, then_fini_in_another_thread)
{
    RobustMutex mutex(PTHREAD_PRIO_NONE);
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(onespace_init(), 0);
        std::thread([] { EXPECT_EQ(onespace_fini(), 0); }).join();
        mutex.lock();
        mutex.unlock();
    }
}

TEST(root, that_dies_takes_its_tasks_with_it)
{
    Pipe pipe;
    pid_t root = fork();
    if (root == 0) {
        Attr attr = ONESPACE_SPAWN_ATTR_INIT;
        onespace_fd_map fds[] = {{pipe.write_end.get(), 1}};
        attr.fds = fds;
        attr.fd_count = 1;
        bool started = onespace_init() == 0;
        for (int i = 0; started && i < 3; i++)
            started = onespace_spawn("sh", pointers({"sh", "-c", "echo up; exec sleep 60"}).data(),
                                     nullptr, &attr) > 0;
        if (started)
            pause();
        _exit(1);
    }
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(read_line(pipe.read_end.get()), "up");
    kill(root, SIGKILL);
    EXPECT_EQ(waitpid(root, nullptr, 0), root);
    pipe.write_end.reset();
    pollfd end = {pipe.read_end.get(), POLLIN, 0};
    EXPECT_EQ(poll(&end, 1, Patience), 1) << "a task still has its descriptor";
    EXPECT_EQ(read_line(pipe.read_end.get()), "");
}

// All of them hold the end of the pipe, which the root's new program closes.
static void expect_gone_when_the_root_executes(bool has_task)
{
    Pipe pipe;
    pid_t root = fork();
    if (root == 0) {
        bool started = onespace_init() == 0;
        if (has_task && started)
            started =
                onespace_spawn("sleep", pointers({"sleep", "600"}).data(), nullptr, nullptr) > 0;
        if (started)
            execlp("sleep", "sleep", "600", nullptr);
        _exit(1);
    }
    pipe.write_end.reset();
    pollfd end = {pipe.read_end.get(), POLLIN, 0};
    EXPECT_EQ(poll(&end, 1, Patience), 1) << "the reaper or a task still has its descriptor";
    EXPECT_EQ(read_line(pipe.read_end.get()), "");
    EXPECT_EQ(waitpid(root, nullptr, WNOHANG), 0) << "the root itself goes on";
    kill(root, SIGKILL);
    EXPECT_EQ(waitpid(root, nullptr, 0), root);
}

TEST(root, that_executes_another_program_takes_its_tasks_and_the_reaper_with_it)
{
    expect_gone_when_the_root_executes(true);
}

TEST(root, that_executes_another_program_takes_the_reaper_with_it)
{
    for (int i = 0; i < 20; i++) // at any place of the reaper's first rounds
        expect_gone_when_the_root_executes(false);
}

// A window is unmapped as a whole when no task uses it any more.
TEST(init, refuses_if_the_windows_of_shared_mappings_are_taken)
{
    void *place =
        reinterpret_cast<void *>(LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE + LAYOUT_MIB);
    void *memory = mmap(place, 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(memory, place);
    EXPECT_EQ(onespace_init(), -ENOMEM);
    munmap(memory, 4096);
    EXPECT_EQ(onespace_init(), ONESPACE_ROOT);
    EXPECT_EQ(onespace_fini(), 0);
}
