// tests/insitu/policy_test.cpp: what begin does while a consumer still needs the arrays.
#include "ends.hpp"

using namespace fixture;
using namespace ends;

using policy = ChannelTest;

TEST_F(policy, wait_waits_for_who_holds)
{
    Producer producer;
    Consumer consumer;
    Step step;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(producer.begin(2, 20), -ETIMEDOUT);
    std::thread late([&] {
        sleep_ms(50);
        EXPECT_TRUE(consumer.is_whole(step));
        EXPECT_EQ(consumer.release(step), 0);
    });
    EXPECT_EQ(producer.begin(2, Patience), 0);
    EXPECT_EQ(producer.publish(), 0);
    late.join();
}

TEST_F(policy, wait_waits_until_a_consumer_of_every_step_has_taken_it)
{
    Producer producer;
    Consumer consumer(ONESPACE_INSITU_EVERY);
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(producer.give(2), -ETIMEDOUT);
    EXPECT_EQ(consumer.next(), 1);
    EXPECT_EQ(producer.give(2), 0);
}

TEST_F(policy, wait_does_not_wait_for_a_consumer_of_the_latest_that_holds_nothing)
{
    Producer producer;
    Consumer consumer;
    for (uint64_t i = 1; i <= 100; i++)
        EXPECT_EQ(producer.give(i), 0);
    EXPECT_EQ(consumer.next(), 100);
}

TEST_F(policy, wait_does_not_wait_when_nobody_is_there)
{
    Producer producer;
    for (uint64_t i = 1; i <= 1000; i++)
        ASSERT_EQ(producer.give(i), 0);
}

TEST_F(policy, skip_skips_the_step_while_somebody_holds)
{
    Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_SKIP; });
    Consumer consumer;
    Step step;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(producer.give(2), 1);
    EXPECT_EQ(producer.publish(), -ENOENT);
    EXPECT_EQ(producer.give(3, Patience), 1); // and it does not wait
    EXPECT_TRUE(consumer.is_whole(step));
    EXPECT_EQ(consumer.release(step), 0);
    EXPECT_EQ(producer.give(4), 0);
    EXPECT_EQ(consumer.next(), 4);
}

TEST_F(policy, copy_hands_out_another_address)
{
    Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_COPY; });
    Consumer consumer;
    Step step;
    Array array;
    EXPECT_EQ(producer.give(1), 0);
    producer.sets[0].assign(1000, -1); // at once
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(consumer.get(step, "x", &array), 0);
    EXPECT_NE(array.address, producer.sets[0].data());
    EXPECT_TRUE(consumer.is_whole(step));
    EXPECT_EQ(consumer.release(step), 0);
}

TEST_F(policy, copy_does_not_wait_for_who_holds_one)
{
    Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_COPY, o.depth = 2; });
    Consumer consumer;
    Step step;
    EXPECT_EQ(producer.give(1), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    for (uint64_t i = 2; i <= 50; i++)
        ASSERT_EQ(producer.give(i), 0) << i;
    EXPECT_TRUE(consumer.is_whole(step));
    EXPECT_EQ(consumer.release(step), 0);
    EXPECT_EQ(consumer.next(), 50);
}

TEST_F(policy, copy_waits_when_a_consumer_of_every_step_is_depth_behind)
{
    Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_COPY, o.depth = 3; });
    Consumer consumer(ONESPACE_INSITU_EVERY);
    for (uint64_t i = 1; i <= 3; i++)
        EXPECT_EQ(producer.give(i), 0);
    EXPECT_EQ(producer.give(4), -ETIMEDOUT);
    EXPECT_EQ(consumer.next(), 1);
    EXPECT_EQ(producer.give(4), 0);
    for (long i = 2; i <= 4; i++)
        EXPECT_EQ(consumer.next(), i);
}

TEST_F(policy, copy_packs_an_array_with_gaps)
{
    Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_COPY; });
    Consumer consumer;
    std::vector<double> values(24);
    for (size_t i = 0; i < values.size(); i++)
        values[i] = static_cast<double>(i);
    Array array = vector_of("x", values), got;
    array.dimensions = 2; // column-major 3 x 4, every other element
    array.shape[0] = 3, array.shape[1] = 4;
    array.strides[0] = 16, array.strides[1] = 48;
    Step step;
    EXPECT_EQ(producer.begin(1), 0);
    ASSERT_EQ(producer.put(array), 0) << message();
    EXPECT_EQ(producer.publish(), 0);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(consumer.get(step, "x", &got), 0);
    EXPECT_EQ(got.strides[0], 32);
    EXPECT_EQ(got.strides[1], 8);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            EXPECT_EQ(static_cast<double *>(got.address)[i * 4 + j], i * 2 + j * 6);
    EXPECT_EQ(consumer.release(step), 0);
}

TEST_F(policy, copy_makes_none_when_nobody_is_there)
{
    Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_COPY; });
    std::vector<double> huge(1 << 20);
    Footprint before = Footprint::now();
    for (uint64_t i = 1; i <= 4; i++) {
        EXPECT_EQ(producer.begin(i), 0);
        EXPECT_EQ(producer.put(vector_of("x", huge)), 0);
        EXPECT_EQ(producer.publish(), 0);
    }
    expect_flat(before);
    Consumer consumer(ONESPACE_INSITU_EVERY);
    EXPECT_EQ(consumer.next(), -ETIMEDOUT);
    EXPECT_EQ(producer.give(5), 0);
    EXPECT_EQ(consumer.next(), 5);
}

TEST_F(policy, copies_are_given_back_at_the_end)
{
    std::vector<double> huge(1 << 20);
    Footprint before = Footprint::now();
    {
        Producer producer("channel", [](Options &o) { o.policy = ONESPACE_INSITU_COPY; });
        Consumer consumer;
        for (uint64_t i = 1; i <= 9; i++) {
            EXPECT_EQ(producer.begin(i), 0);
            EXPECT_EQ(producer.put(vector_of("x", huge)), 0);
            EXPECT_EQ(producer.publish(), 0);
        }
        EXPECT_EQ(consumer.close(), 0);
        EXPECT_EQ(producer.close(0), 0);
    }
    expect_flat(before, 3); // the table of channels stays
}
