// tests/insitu/reclaim_test.cpp: a producer takes the step back that it has published.
#include "ends.hpp"

using namespace fixture;
using namespace ends;

using taken_back = ChannelTest;

namespace
{

int reclaim(Producer &producer, int timeout_ms = 0)
{
    return onespace_insitu_reclaim(producer.handle, timeout_ms);
}

} // namespace

TEST_F(taken_back, when_who_holds_it_releases_it)
{
    Producer producer;
    Consumer consumer;
    Step step;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(reclaim(producer), -ETIMEDOUT);
    EXPECT_EQ(reclaim(producer, 20), -ETIMEDOUT);
    std::thread late([&] {
        sleep_ms(50);
        EXPECT_TRUE(consumer.is_whole(step));
        EXPECT_EQ(consumer.release(step), 0);
    });
    EXPECT_EQ(reclaim(producer, Patience), 0);
    late.join();
    EXPECT_EQ(reclaim(producer), 0); // again
    EXPECT_EQ(producer.give(2), 0);
    EXPECT_EQ(consumer.next(), 2);
}

TEST_F(taken_back, when_consumers_of_every_step_and_of_the_latest_had_it)
{
    for (int mode : {ONESPACE_INSITU_EVERY, ONESPACE_INSITU_LATEST}) {
        Producer producer("channel", [](Options &o) { o.depth = 3; });
        producer.use_sets(3);
        Consumer consumer(mode);
        EXPECT_EQ(producer.give(1), 0);
        EXPECT_EQ(reclaim(producer, 20), -ETIMEDOUT) << mode;
        EXPECT_EQ(consumer.next(), 1);
        EXPECT_EQ(reclaim(producer), 0) << mode;
    }
}

TEST_F(taken_back, is_not_found_by_who_comes_later)
{
    Producer producer;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(reclaim(producer), 0); // there is no consumer
    Consumer late(ONESPACE_INSITU_EVERY), latest;
    EXPECT_EQ(late.next(), -ETIMEDOUT);
    EXPECT_EQ(latest.next(), -ETIMEDOUT);
    EXPECT_EQ(producer.give(2), 0);
    EXPECT_EQ(late.next(), 2);
    EXPECT_EQ(latest.next(), 2);
    EXPECT_EQ(producer.close(), 0);
    EXPECT_EQ(late.next(), -ENODATA);
}

TEST_F(taken_back, leaves_earlier_steps_to_who_is_owed_them)
{
    Producer producer("channel", [](Options &o) { o.depth = 3; });
    producer.use_sets(3);
    Consumer slow(ONESPACE_INSITU_EVERY);
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(producer.give(2), 0);
    EXPECT_EQ(reclaim(producer), -ETIMEDOUT);
    EXPECT_EQ(slow.next(), 1);
    EXPECT_EQ(reclaim(producer), -ETIMEDOUT);
    EXPECT_EQ(slow.next(), 2);
    EXPECT_EQ(reclaim(producer), 0);
}

TEST_F(taken_back, with_several_ranks_by_each_of_them)
{
    auto two = [](unsigned rank) {
        return [rank](Options &o) {
            o.rank = rank;
            o.ranks = 2;
        };
    };
    Producer first("channel", two(0)), second("channel", two(1));
    Consumer consumer(ONESPACE_INSITU_EVERY);
    EXPECT_EQ(first.give(1, Patience), 0);
    EXPECT_EQ(reclaim(first), -ETIMEDOUT); // it is not complete
    EXPECT_EQ(second.give(1, Patience), 0);
    EXPECT_EQ(reclaim(first), -ETIMEDOUT);
    EXPECT_EQ(consumer.next(), 1);
    EXPECT_EQ(reclaim(second), 0);
    EXPECT_EQ(reclaim(first), 0);
    EXPECT_EQ(first.give(2, Patience), 0);
}

TEST_F(taken_back, must_have_been_published)
{
    Producer producer;
    EXPECT_EQ(reclaim(producer), -ENOENT);
    EXPECT_TRUE(says("no step was published")) << message();
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(reclaim(producer), -EALREADY);
    EXPECT_TRUE(says("step 1 is not published yet")) << message();
    Consumer consumer;
    EXPECT_EQ(onespace_insitu_reclaim(consumer.handle, 0), -EINVAL);
}

TEST_F(taken_back, when_the_consumer_that_holds_it_dies)
{
    Producer producer;
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(producer.publish(), 0);
    Task consumer({program("insitu"), "hold", "channel", std::to_string(ONESPACE_INSITU_LATEST)});
    EXPECT_EQ(consumer.line(), "holds 1");
    EXPECT_EQ(reclaim(producer, 20), -ETIMEDOUT);
    consumer.kill();
    EXPECT_EQ(reclaim(producer, Patience), 0);
    EXPECT_EQ(consumer.wait(), SIGKILL);
}

TEST_F(taken_back, never_when_a_rank_died_before_it_published)
{
    Task other({program("insitu"), "rank", "channel", "0", "2"});
    EXPECT_EQ(other.line(), "created");
    Producer producer("channel", [](Options &o) {
        o.rank = 1;
        o.ranks = 2;
    });
    EXPECT_EQ(producer.give(1, Patience), 0);
    std::thread killer([&] {
        sleep_ms(50);
        other.kill();
    });
    EXPECT_EQ(reclaim(producer, Patience), -EOWNERDEAD);
    killer.join();
    EXPECT_EQ(other.wait(), SIGKILL);
}
