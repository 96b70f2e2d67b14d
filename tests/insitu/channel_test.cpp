// tests/insitu/channel_test.cpp: a channel with one producer: names, steps, order, the end.
#include "ends.hpp"

using namespace fixture;
using namespace ends;

using channel = ChannelTest;

TEST_F(channel, hands_the_producers_own_address_over)
{
    Producer producer;
    Consumer consumer;
    Step step;
    Array array;
    ASSERT_EQ(producer.give(7), 0);
    ASSERT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(step.step, 7u);
    EXPECT_EQ(step.ranks, 1u);
    ASSERT_EQ(consumer.get(step, "x", &array, ONESPACE_INSITU_FLOAT64), 0);
    EXPECT_EQ(array.address, producer.sets[0].data());
    EXPECT_EQ(array.shape[0], 1000u);
    EXPECT_EQ(array.strides[0], 8);
    EXPECT_EQ(array.bytes, 8000u);
    EXPECT_EQ(consumer.release(step), 0);
}

TEST_F(channel, of_a_name_that_is_taken_is_refused)
{
    Producer first, second;
    EXPECT_EQ(first.result, 0);
    EXPECT_EQ(second.result, -EEXIST);
    EXPECT_TRUE(says("'channel' already belongs to task 0")) << message();
}

TEST_F(channel, name_is_free_again_after_the_close)
{
    Producer first;
    EXPECT_EQ(first.close(), 0);
    Producer second;
    EXPECT_EQ(second.result, 0);
}

TEST_F(channel, name_is_free_again_while_a_consumer_still_has_the_closed_one)
{
    Producer first;
    Consumer old;
    EXPECT_EQ(first.close(), 0);
    Producer second;
    Consumer fresh;
    EXPECT_EQ(second.result, 0);
    EXPECT_EQ(fresh.result, 0);
    EXPECT_EQ(second.give(1), 0);
    EXPECT_EQ(old.next(), -ENODATA);
    EXPECT_EQ(fresh.next(), 1);
}

TEST_F(channel, wants_a_name)
{
    EXPECT_EQ(Producer("").result, -EINVAL);
    EXPECT_EQ(Producer(std::string(64, 'x').c_str()).result, -ENAMETOOLONG);
    EXPECT_EQ(Producer(std::string(63, 'x').c_str()).result, 0);
}

TEST_F(channel, that_is_not_there_is_waited_for_no_longer_than_asked)
{
    EXPECT_EQ(Consumer(ONESPACE_INSITU_LATEST, "nowhere", 0).result, -ETIMEDOUT);
    EXPECT_EQ(Consumer(ONESPACE_INSITU_LATEST, "nowhere", 20).result, -ETIMEDOUT);
}

TEST_F(channel, that_comes_later_is_opened)
{
    std::thread late([] {
        sleep_ms(50);
        Producer producer("channel", [](Options &o) { o.consumers = 1; });
        EXPECT_EQ(producer.give(3, Patience), 0);
        EXPECT_EQ(producer.close(Patience), 0);
    });
    Consumer consumer(ONESPACE_INSITU_EVERY, "channel", Patience);
    EXPECT_EQ(consumer.result, 0);
    EXPECT_EQ(consumer.next(Patience), 3);
    late.join();
}

TEST_F(channel, wants_a_mode_that_there_is)
{
    Producer producer;
    EXPECT_EQ(Consumer(2).result, -EINVAL);
    EXPECT_TRUE(says("no mode 2")) << message();
}

TEST_F(channel, wants_options_that_make_sense)
{
    EXPECT_EQ(Producer("a", [](Options &o) { o.policy = 3; }).result, -EINVAL);
    EXPECT_EQ(Producer("a", [](Options &o) { o.size = 3; }).result, -EINVAL);
    EXPECT_EQ(Producer("a", [](Options &o) { o.depth = 17; }).result, -EINVAL);
    EXPECT_EQ(Producer("a", [](Options &o) { o.ranks = 0; }).result, -EINVAL);
    EXPECT_EQ(Producer("a", [](Options &o) { o.rank = 1; }).result, -EINVAL);
    EXPECT_EQ(Producer("a", [](Options &o) { o.ranks = 2047, o.depth = 3; }).result, -ENOSPC);
}

TEST_F(channel, table_that_is_full_is_reported)
{
    std::vector<std::unique_ptr<Producer>> all;
    for (int i = 0; i < ONESPACE_INSITU_CHANNELS; i++) {
        all.push_back(std::make_unique<Producer>(("c" + std::to_string(i)).c_str()));
        ASSERT_EQ(all.back()->result, 0) << i;
    }
    EXPECT_EQ(Producer("one more").result, -ENOSPC);
    EXPECT_TRUE(says("64 channels")) << message();
}

TEST_F(channel, steps_must_grow)
{
    Producer producer;
    EXPECT_EQ(producer.give(5), 0);
    EXPECT_EQ(producer.give(5), -EINVAL);
    EXPECT_TRUE(says("step 5 after step 5")) << message();
    EXPECT_EQ(producer.give(4), -EINVAL);
    EXPECT_EQ(producer.give(1000), 0);
}

TEST_F(channel, step_is_begun_once)
{
    Producer producer;
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(producer.begin(2), -EALREADY);
    EXPECT_EQ(producer.publish(), 0);
}

TEST_F(channel, step_is_begun_before_it_is_published)
{
    Producer producer;
    std::vector<double> values(1);
    EXPECT_EQ(producer.publish(), -ENOENT);
    EXPECT_EQ(producer.put(vector_of("x", values)), -ENOENT);
}

TEST_F(channel, step_that_is_not_published_is_not_to_be_had)
{
    Producer producer;
    Consumer consumer;
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(consumer.next(), -ETIMEDOUT);
    EXPECT_EQ(consumer.next(20), -ETIMEDOUT);
    EXPECT_EQ(producer.publish(), 0);
}

TEST_F(channel, step_released_twice_is_refused)
{
    Producer producer;
    Consumer consumer;
    Step step;
    EXPECT_EQ(producer.give(9), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(consumer.release(step), 0);
    EXPECT_EQ(consumer.release(step), -EINVAL);
    EXPECT_TRUE(says("step 9 is not held")) << message();
}

TEST_F(channel, step_that_was_released_is_not_read_by_its_old_ticket)
{
    Producer producer;
    Consumer consumer;
    Step old, fresh;
    Array array;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.take(&old), 0);
    EXPECT_EQ(consumer.release(old), 0);
    EXPECT_EQ(producer.give(2), 0);
    EXPECT_EQ(consumer.take(&fresh), 0);
    EXPECT_EQ(consumer.get(old, "x", &array), -EINVAL);
    EXPECT_EQ(consumer.release(old), -EINVAL);
    EXPECT_EQ(consumer.get(fresh, "x", &array), 0);
    EXPECT_EQ(consumer.release(fresh), 0);
}

TEST_F(channel, ticket_of_another_handle_is_refused)
{
    Producer producer;
    Consumer first, second;
    Step step;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(first.take(&step), 0);
    EXPECT_EQ(second.release(step), -EINVAL);
    EXPECT_EQ(first.release(step), 0);
}

TEST_F(channel, ends_are_not_mistaken_for_one_another)
{
    Producer producer;
    Consumer consumer;
    Step step = {};
    EXPECT_EQ(onespace_insitu_begin(consumer.handle, 1, 0), -EINVAL);
    EXPECT_EQ(onespace_insitu_take(producer.handle, &step, 0), -EINVAL);
    EXPECT_EQ(onespace_insitu_release(producer.handle, &step), -EINVAL);
}

TEST_F(channel, latest_passes_over_what_is_old)
{
    Producer producer("channel", [](Options &o) { o.depth = 4; });
    producer.use_sets(4);
    Consumer consumer;
    Step step;
    for (uint64_t i = 1; i <= 3; i++)
        EXPECT_EQ(producer.give(i * 10), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(step.step, 30u);
    EXPECT_EQ(step.passed, 2u);
    EXPECT_EQ(consumer.release(step), 0);
    EXPECT_EQ(consumer.next(), -ETIMEDOUT);
}

TEST_F(channel, every_gives_all_in_order)
{
    Producer producer("channel", [](Options &o) { o.depth = 4; });
    producer.use_sets(4);
    Consumer consumer(ONESPACE_INSITU_EVERY);
    for (uint64_t i = 1; i <= 4; i++)
        EXPECT_EQ(producer.give(i), 0);
    for (long i = 1; i <= 4; i++)
        EXPECT_EQ(consumer.next(), i);
    EXPECT_EQ(consumer.next(), -ETIMEDOUT);
}

TEST_F(channel, late_consumer_begins_with_the_latest_step)
{
    Producer producer("channel", [](Options &o) { o.depth = 4; });
    producer.use_sets(4);
    for (uint64_t i = 1; i <= 3; i++)
        EXPECT_EQ(producer.give(i), 0);
    Consumer every(ONESPACE_INSITU_EVERY), latest;
    EXPECT_EQ(every.next(), 3);
    EXPECT_EQ(latest.next(), 3);
}

TEST_F(channel, several_steps_are_held_at_once)
{
    Producer producer("channel", [](Options &o) { o.depth = 2; });
    producer.use_sets(2);
    Consumer consumer(ONESPACE_INSITU_EVERY);
    Step first, second;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(producer.give(2), 0);
    EXPECT_EQ(consumer.take(&first), 0);
    EXPECT_EQ(consumer.take(&second), 0);
    EXPECT_EQ(producer.give(3), -ETIMEDOUT);
    EXPECT_TRUE(consumer.is_whole(first) && consumer.is_whole(second));
    EXPECT_EQ(consumer.release(second), 0);
    EXPECT_EQ(producer.give(3), -ETIMEDOUT); // would reuse the arrays of step 1
    EXPECT_EQ(consumer.release(first), 0);
    EXPECT_EQ(producer.give(3), 0);
}

TEST_F(channel, end_is_reported_after_the_last_step)
{
    Producer producer;
    Consumer consumer(ONESPACE_INSITU_EVERY);
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(producer.close(0), -ETIMEDOUT); // the consumer is owed a step
    EXPECT_EQ(producer.begin(2), -EPIPE);
    EXPECT_EQ(consumer.next(), 1);
    EXPECT_EQ(consumer.next(), -ENODATA);
    EXPECT_TRUE(says("'channel' is closed")) << message();
    EXPECT_EQ(producer.close(0), 0);
}

TEST_F(channel, end_waits_for_the_last_step_to_be_taken_by_consumers_of_the_latest)
{
    Producer producer;
    Consumer consumer;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(producer.close(0), -ETIMEDOUT);
    EXPECT_EQ(consumer.next(), 1);
    EXPECT_EQ(producer.close(0), 0);
    EXPECT_EQ(consumer.next(), -ENODATA);
}

TEST_F(channel, end_drops_a_step_that_was_not_published)
{
    Producer producer;
    Consumer consumer(ONESPACE_INSITU_EVERY);
    EXPECT_EQ(producer.begin(1), 0);
    EXPECT_EQ(producer.close(0), 0);
    EXPECT_EQ(consumer.next(), -ENODATA);
}

TEST_F(channel, end_wakes_who_sleeps)
{
    Producer producer;
    Consumer consumer;
    std::thread sleeper([&] { EXPECT_EQ(consumer.next(Patience), -ENODATA); });
    sleep_ms(50);
    EXPECT_EQ(producer.close(0), 0);
    sleeper.join();
}

TEST_F(channel, closed_consumer_gives_all_back)
{
    Producer producer;
    Consumer consumer(ONESPACE_INSITU_EVERY);
    Step step;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(producer.give(2), -ETIMEDOUT);
    EXPECT_EQ(consumer.close(), 0);
    EXPECT_EQ(producer.give(2), 0);
}

TEST_F(channel, consumers_are_waited_for_before_the_first_step)
{
    Producer producer("channel", [](Options &o) { o.consumers = 2; });
    EXPECT_EQ(producer.begin(1), -ETIMEDOUT);
    Consumer first;
    EXPECT_EQ(producer.begin(1), -ETIMEDOUT);
    {
        Consumer second;
        EXPECT_EQ(producer.begin(1), 0);
        EXPECT_EQ(producer.publish(), 0);
    }
    EXPECT_EQ(producer.begin(2), 0); // consumers may leave again
    EXPECT_EQ(producer.publish(), 0);
}

TEST_F(channel, many_steps_reach_a_consumer_that_sleeps_and_one_that_spins)
{
    static constexpr int Steps = 3000;
    Producer producer("channel", [](Options &o) { o.consumers = 2; });
    auto consume = [](int timeout_ms) {
        Consumer consumer(ONESPACE_INSITU_EVERY, "channel", Patience);
        long seen = 0, next;
        while ((next = consumer.next(timeout_ms)) != -ENODATA)
            if (next != -ETIMEDOUT) {
                ASSERT_EQ(next, seen + 1);
                seen = next;
            }
        EXPECT_EQ(seen, Steps);
    };
    std::thread sleeper(consume, Patience), spinner(consume, 1);
    for (uint64_t i = 1; i <= Steps; i++)
        ASSERT_EQ(producer.give(i, Patience), 0) << i;
    EXPECT_EQ(producer.close(Patience), 0);
    sleeper.join();
    spinner.join();
}
