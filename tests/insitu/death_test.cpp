// tests/insitu/death_test.cpp: a producer or consumer is killed, ends, or executes another program.
#include "ends.hpp"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

using namespace fixture;
using namespace ends;

using death = ChannelTest;

static Words guest(const std::string &scene, const std::vector<std::string> &rest)
{
    Words words = {program("insitu"), scene, "channel"};
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
}

static const std::string Wait = std::to_string(ONESPACE_INSITU_WAIT),
                         Latest = std::to_string(ONESPACE_INSITU_LATEST),
                         Every = std::to_string(ONESPACE_INSITU_EVERY);

// The producer's wait for a consumer ends when the consumer is killed.
static void expect_death_frees(Producer &producer, Task &consumer)
{
    EXPECT_EQ(producer.begin(2, 20), -ETIMEDOUT);
    consumer.kill();
    EXPECT_EQ(producer.begin(2, Patience), 0);
    EXPECT_EQ(consumer.wait(), SIGKILL);
}

TEST_F(death, nobody_dies_and_all_steps_arrive)
{
    Task consumer(guest("consume", {Every})), late(guest("consume", {Latest}));
    Task producer(guest("produce", {Wait, "2", "500", "2"}));
    EXPECT_EQ(producer.line(), "published");
    EXPECT_EQ(producer.finish().status, 0);
    EXPECT_EQ(consumer.finish(),
              exits("open\ntook 1\n500 steps, the last 500: No data available\n"));
    std::string text = late.finish().output;
    EXPECT_NE(text.find("the last 500: No data available\n"), std::string::npos) << text;
}

TEST_F(death, of_a_consumer_gives_its_step_back)
{
    Producer producer;
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(producer.publish(), 0);
    Task consumer(guest("hold", {Latest}));
    EXPECT_EQ(consumer.line(), "holds 1");
    expect_death_frees(producer, consumer);
}

static bool is_stopped(int pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    size_t name_end = text.rfind(") ");
    return name_end != std::string::npos && text[name_end + 2] == 'T';
}

TEST_F(death, of_a_consumer_frees_the_producer_that_waits_for_it_to_take)
{
    Producer producer;
    Task consumer(guest("consume", {Every}));
    EXPECT_EQ(consumer.line(), "open");
    EXPECT_EQ(onespace_kill(consumer.id(), SIGSTOP), 0);
    ASSERT_TRUE(eventually([&] { return is_stopped(onespace_pid(consumer.id())); }));
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(producer.publish(), 0);
    expect_death_frees(producer, consumer);
}

TEST_F(death, of_a_consumer_by_execve_gives_its_step_back)
{
    Producer producer;
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(producer.publish(), 0);
    Task consumer(guest("hold", {Latest}));
    EXPECT_EQ(consumer.line(), "holds 1");
    consumer.write_line("execute");
    EXPECT_EQ(consumer.line(), "executed");
    EXPECT_EQ(producer.begin(2, Patience), 0);
}

TEST_F(death, of_a_producer_is_reported_to_the_consumer_that_sleeps)
{
    Task producer(guest("produce", {Wait, "1", "1"}));
    EXPECT_EQ(producer.line(), "published");
    Task consumer(guest("consume", {Every}));
    EXPECT_EQ(consumer.line(), "open");
    EXPECT_EQ(consumer.line(), "took 1");
    sleep_ms(50); // usually it sleeps by then
    producer.kill();
    std::string text = consumer.finish().output;
    EXPECT_EQ(text, "1 steps, the last 1: Owner died\n");
    EXPECT_EQ(producer.wait(), SIGKILL);
}

TEST_F(death, of_a_producer_that_did_not_close_is_reported)
{
    Task producer({program("insitu"), "produce", "channel", "0", "1", "1"});
    Consumer consumer(ONESPACE_INSITU_LATEST, "channel", Patience);
    EXPECT_EQ(producer.line(), "published");
    producer.kill(SIGTERM);
    EXPECT_EQ(producer.wait(), SIGTERM);
    Step step;
    EXPECT_EQ(consumer.take(&step, Patience), -EOWNERDEAD);
    EXPECT_TRUE(says("has ended: task " + std::to_string(producer.id()))) << message();
}

TEST_F(death, of_a_producer_leaves_the_step_that_is_held_readable)
{
    Task producer(guest("produce", {Wait, "1", "1"}));
    EXPECT_EQ(producer.line(), "published");
    Task consumer(guest("hold", {Latest}));
    EXPECT_EQ(consumer.line(), "holds 1");
    producer.kill_and_wait();
    sleep_ms(50);
    consumer.write_line("check");
    EXPECT_EQ(consumer.finish(), exits("whole\n"));
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

TEST_F(death, of_a_producer_frees_the_name)
{
    Task producer(guest("produce", {Wait, "1", "1"}));
    Consumer consumer(ONESPACE_INSITU_LATEST, "channel", Patience);
    EXPECT_EQ(producer.line(), "published");
    EXPECT_EQ(Producer().result, -EEXIST);
    producer.kill_and_wait();
    EXPECT_EQ(Producer().result, 0);
}

TEST_F(death, of_one_rank_is_reported_to_the_others)
{
    Options options = ONESPACE_INSITU_OPTIONS_INIT;
    options.ranks = 2;
    options.rank = 1;
    onespace_insitu *handle;
    Task other(guest("rank", {"0", "2"}));
    EXPECT_EQ(other.line(), "created");
    other.write_line("give 1"); // but not 2
    ASSERT_EQ(onespace_insitu_create("channel", &options, &handle), 0) << message();
    EXPECT_EQ(onespace_insitu_begin(handle, 1, Patience), 0);
    EXPECT_EQ(onespace_insitu_publish(handle), 0);
    EXPECT_EQ(other.line(), "0");
    EXPECT_EQ(onespace_insitu_begin(handle, 2, 0), 0);
    EXPECT_EQ(onespace_insitu_publish(handle), 0);
    std::thread killer([&] {
        sleep_ms(50);
        other.kill();
    });
    EXPECT_EQ(onespace_insitu_begin(handle, 3, Patience), -EOWNERDEAD);
    killer.join();
    EXPECT_EQ(other.wait(), SIGKILL);
    EXPECT_EQ(onespace_insitu_close(handle, 0), 0);
}

TEST_F(death, of_a_rank_that_waits_in_a_turn_is_reported_to_the_others)
{
    Task first(guest("rank", {"0", "2"})), second(guest("rank", {"1", "2"}));
    EXPECT_EQ(first.line(), "created");
    EXPECT_EQ(second.line(), "created");
    Task consumer(guest("hold", {Latest}));
    first.write_line("give 1");
    second.write_line("give 1");
    EXPECT_EQ(first.line(), "0");
    EXPECT_EQ(second.line(), "0");
    EXPECT_EQ(consumer.line(), "holds 1");
    first.write_line("give 2"); // makes the decision, and waits for the consumer
    sleep_ms(50);
    second.write_line("give 2");
    sleep_ms(50);
    first.kill();
    EXPECT_EQ(second.line(), std::to_string(-EOWNERDEAD));
    EXPECT_EQ(first.wait(), SIGKILL);
    consumer.write_line("check");
}

TEST_F(death, of_a_producer_that_waits_in_close_is_no_error)
{
    Task producer(guest("produce", {Wait, "1", "1"}));
    EXPECT_EQ(producer.line(), "published");
    Task consumer(guest("hold", {Every}));
    EXPECT_EQ(consumer.line(), "holds 1");
    producer.close_input();
    ASSERT_TRUE(eventually([] { return Consumer(ONESPACE_INSITU_EVERY).result == -ETIMEDOUT; }))
        << "it closes: no consumer can open the channel";
    Task late(guest("consume", {Every})); // waits for another channel of that name
    sleep_ms(50);
    producer.kill_and_wait();
    consumer.write_line("check");
    EXPECT_EQ(consumer.finish(), exits("whole\n"));
    late.kill_and_wait();
}

// A userfaultfd from which nothing is read: munmap of the page waits until it is closed. -1: the
// kernel or a filter forbids it.
static int watch_unmapping(void *page)
{
    uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP, .ioctls = 0};
    uffdio_register range = {
        .range = {reinterpret_cast<uintptr_t>(page), uint64_t(sysconf(_SC_PAGESIZE))},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
        .ioctls = 0};
    int fd = int(syscall(SYS_userfaultfd, O_CLOEXEC));
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0)
        return fd;
    close(fd);
    return -1;
}

// The reaper frees the channel, and must not wait for the reader of the userfaultfd.
TEST_F(death, of_a_producer_whose_channel_is_watched_keeps_no_other_task_from_ending)
{
    Task producer(guest("produce", {Wait, "1", "1"}));
    EXPECT_EQ(producer.line(), "published");
    int fd = watch_unmapping(probe_area());
    producer.kill_and_wait();
    if (fd < 0)
        GTEST_SKIP() << "needs userfaultfd";
    if (HasFailure()) { // the reaper waits, and so would the next task
        close(fd);
        return;
    }
    EXPECT_EQ(as_task({"false"}).status, 1 << 8);
    EXPECT_EQ(probe_channels(), 1); // it is not free yet
    const Words ps = {ONESPACE_TEST_PROGRAMS "/../../bin/onespace", "ps", std::to_string(getpid())};
    EXPECT_TRUE(eventually([&] {
        return as_process(ps).output.find("memory of a channel has been unmapped for") !=
               std::string::npos;
    }));
    close(fd);
}

TEST_F(death, of_a_forked_child_changes_nothing)
{
    Producer producer;
    Consumer consumer;
    pid_t child = fork();
    if (child == 0) {
        Step step;
        onespace_insitu *handle;
        bool refused = onespace_insitu_begin(producer.handle, 1, 0) == -EPERM &&
                       onespace_insitu_take(consumer.handle, &step, 0) == -EPERM &&
                       onespace_insitu_close(consumer.handle, 0) == -EPERM &&
                       onespace_insitu_create("x", nullptr, &handle) == -EPERM &&
                       onespace_insitu_open("channel", 0, 0, &handle) == -EPERM;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.next(), 1);
}
