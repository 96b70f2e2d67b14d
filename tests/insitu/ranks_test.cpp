// tests/insitu/ranks_test.cpp: channels of several producing ranks, here threads of the root.
#include "ends.hpp"

using namespace fixture;
using namespace ends;

using ranks = ChannelTest;

static std::function<void(Options &)> rank_of(unsigned rank, unsigned count, int policy = 0,
                                              unsigned depth = 0)
{
    return [=](Options &options) {
        options.rank = rank, options.ranks = count;
        options.policy = policy, options.depth = depth;
    };
}

TEST_F(ranks, make_a_step_together)
{
    Producer left("channel", rank_of(0, 2)), right("channel", rank_of(1, 2));
    ASSERT_EQ(right.result, 0) << message();
    Consumer consumer;
    Step step;
    EXPECT_EQ(left.give(1), 0);
    EXPECT_EQ(consumer.next(), -ETIMEDOUT);
    EXPECT_EQ(right.give(1), 0);
    ASSERT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(step.ranks, 2u);
    Array first, second;
    EXPECT_EQ(consumer.get(step, "x", &first, ONESPACE_INSITU_ANY, 0), 0);
    EXPECT_EQ(consumer.get(step, "x", &second, ONESPACE_INSITU_ANY, 1), 0);
    EXPECT_EQ(first.address, left.sets[0].data());
    EXPECT_EQ(second.address, right.sets[0].data());
    EXPECT_EQ(consumer.get(step, "x", &second, ONESPACE_INSITU_ANY, 2), -EINVAL);
    EXPECT_TRUE(says("no rank 2")) << message();
    EXPECT_EQ(consumer.release(step), 0);
}

TEST_F(ranks, are_all_there_before_a_consumer_is_let_in_and_a_step_begun)
{
    Producer first("channel", rank_of(0, 2));
    EXPECT_EQ(Consumer().result, -ETIMEDOUT);
    EXPECT_EQ(first.begin(1), -ETIMEDOUT);
    Producer second("channel", rank_of(1, 2));
    EXPECT_EQ(Consumer().result, 0);
    EXPECT_EQ(first.begin(1), 0);
}

TEST_F(ranks, have_numbers_of_their_own)
{
    Producer first("channel", rank_of(1, 2)), again("channel", rank_of(1, 2));
    EXPECT_EQ(again.result, -EEXIST);
    EXPECT_TRUE(says("rank 1 of channel")) << message();
}

TEST_F(ranks, must_say_the_same_of_the_channel)
{
    Producer first("channel", rank_of(0, 2));
    EXPECT_EQ(Producer("channel", rank_of(1, 3)).result, -EINVAL);
    EXPECT_EQ(Producer("channel", rank_of(1, 2, ONESPACE_INSITU_SKIP)).result, -EINVAL);
    EXPECT_EQ(Producer("channel", rank_of(1, 2, 0, 2)).result, -EINVAL);
    EXPECT_TRUE(says("all ranks must say the same")) << message();
}

TEST_F(ranks, must_begin_the_same_steps)
{
    Producer first("channel", rank_of(0, 2)), second("channel", rank_of(1, 2));
    EXPECT_EQ(first.begin(6), 0);
    EXPECT_EQ(second.begin(7), -EINVAL);
    EXPECT_TRUE(says("rank 1 begins step 7 where another rank began step 6")) << message();
    EXPECT_EQ(second.begin(6), 0);
}

TEST_F(ranks, skip_the_same_steps)
{
    Producer first("channel", rank_of(0, 2, ONESPACE_INSITU_SKIP)),
        second("channel", rank_of(1, 2, ONESPACE_INSITU_SKIP));
    Consumer consumer;
    Step step;
    EXPECT_EQ(first.give(1), 0);
    EXPECT_EQ(first.give(2), 1); // the other rank is still filling step 1
    EXPECT_EQ(second.give(1), 0);
    EXPECT_EQ(second.give(2), 1);
    EXPECT_EQ(consumer.take(&step), 0);
    EXPECT_EQ(second.give(3), 1);
    EXPECT_EQ(consumer.release(step), 0);
    EXPECT_EQ(first.give(3), 1); // as was decided
    EXPECT_EQ(first.give(4), 0);
    EXPECT_EQ(second.give(4), 0);
    EXPECT_EQ(consumer.next(), 4);
}

TEST_F(ranks, of_a_channel_that_skips_do_not_run_too_far_ahead)
{
    Producer first("channel", rank_of(0, 2, ONESPACE_INSITU_SKIP)),
        second("channel", rank_of(1, 2, ONESPACE_INSITU_SKIP));
    uint64_t step = 1;
    int result;
    while ((result = first.give(step)) >= 0 && step < 1000)
        step++;
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_GT(step, 200u);
    EXPECT_EQ(second.give(1), 0);
    EXPECT_EQ(first.give(step), 0); // all of step 1 was released
}

TEST_F(ranks, that_close_end_the_channel_after_what_is_complete)
{
    Producer first("channel", rank_of(0, 2, 0, 2)), second("channel", rank_of(1, 2, 0, 2));
    Consumer consumer(ONESPACE_INSITU_EVERY);
    first.use_sets(2);
    second.use_sets(2);
    EXPECT_EQ(first.give(1), 0);
    EXPECT_EQ(first.close(0), -ETIMEDOUT);
    EXPECT_EQ(consumer.next(), -ETIMEDOUT); // step 1 is still to come
    EXPECT_EQ(second.give(1), 0);
    EXPECT_EQ(second.begin(2), -EPIPE);
    EXPECT_EQ(consumer.next(), 1);
    EXPECT_EQ(consumer.next(), -ENODATA);
    EXPECT_EQ(first.close(0), 0);
    EXPECT_EQ(second.close(0), 0);
}

TEST_F(ranks, that_close_leave_steps_that_will_never_be_complete)
{
    Producer first("channel", rank_of(0, 2, 0, 2)), second("channel", rank_of(1, 2, 0, 2));
    EXPECT_EQ(first.give(1), 0);
    EXPECT_EQ(onespace_insitu_reclaim(first.handle, 0), -ETIMEDOUT); // may still come
    EXPECT_EQ(second.close(0), 0);
    EXPECT_EQ(onespace_insitu_reclaim(first.handle, Patience), 0);
}

// ---- Reading boxes of the global array ----

// As with ghost cells.
TEST_F(ranks, whose_parts_overlap_do_not_hide_what_no_part_has)
{
    Producer producers[] = {Producer("channel", rank_of(0, 2)), Producer("channel", rank_of(1, 2))};
    Consumer consumer;
    std::vector<double> values[] = {{0, 1, 2, 3, 4, 5}, {4, 5, 6, 7}};
    for (int i = 0; i < 2; i++) {
        Array array = vector_of("x", values[i]);
        array.global_shape[0] = 10;
        array.offset[0] = i ? 4 : 0;
        ASSERT_EQ(producers[i].begin(1), 0);
        ASSERT_EQ(producers[i].put(array), 0) << message();
        ASSERT_EQ(producers[i].publish(), 0);
    }
    Step step;
    ASSERT_EQ(consumer.take(&step), 0);
    std::vector<double> got(10);
    auto read = [&](uint64_t offset, uint64_t count) {
        return onespace_insitu_read(consumer.handle, &step, "x", ONESPACE_INSITU_FLOAT64, &offset,
                                    &count, got.data());
    };
    EXPECT_EQ(read(0, 10), -ENOENT);
    EXPECT_TRUE(says("have 8 of the box's 10 elements")) << message();
    EXPECT_EQ(read(8, 1), -ENOENT);
    EXPECT_EQ(read(0, 8), 0) << message();
    EXPECT_EQ(got[7], 7);
    EXPECT_EQ(read(3, 3), 0) << message();
    EXPECT_EQ(got[2], 5);
    EXPECT_EQ(consumer.release(step), 0);
}

class boxes : public ranks
{
  protected:
    // A global array of 6 x 10: rank 0 has columns 0 to 3, rank 1 the rest, column-major.
    void give(Producer &producer, unsigned rank, std::vector<int32_t> &values)
    {
        uint64_t width = rank ? 6 : 4, from = rank ? 4 : 0;
        values.resize(6 * width);
        for (uint64_t i = 0; i < 6; i++)
            for (uint64_t j = 0; j < width; j++)
                values[j * 6 + i] = static_cast<int32_t>(i * 10 + from + j);
        Array array = {};
        array.name = "x";
        array.address = values.data();
        array.type = ONESPACE_INSITU_INT32;
        array.dimensions = 2;
        array.shape[0] = 6, array.shape[1] = width;
        array.strides[0] = 4, array.strides[1] = 24;
        array.global_shape[0] = 6, array.global_shape[1] = global_width;
        array.offset[1] = from;
        ASSERT_EQ(producer.begin(1), 0) << message();
        ASSERT_EQ(producer.put(array), 0) << message();
        ASSERT_EQ(producer.publish(), 0);
    }
    void SetUp() override
    {
        ranks::SetUp();
        first = std::make_unique<Producer>("channel", rank_of(0, 2));
        second = std::make_unique<Producer>("channel", rank_of(1, 2));
        consumer = std::make_unique<Consumer>();
    }
    void TearDown() override
    {
        EXPECT_EQ(consumer->release(step), 0);
        consumer.reset();
        first.reset();
        second.reset();
        ranks::TearDown();
    }
    // A step of both ranks, each with its own idea of the global array's width.
    void hand_out(uint64_t width_of_one, uint64_t width_of_two)
    {
        global_width = width_of_one;
        give(*first, 0, left);
        global_width = width_of_two;
        give(*second, 1, right);
        ASSERT_EQ(consumer->take(&step), 0);
    }
    int read(std::vector<uint64_t> offset, std::vector<uint64_t> shape,
             int type = ONESPACE_INSITU_INT32)
    {
        got.assign(shape[0] * shape[1], -1);
        return onespace_insitu_read(consumer->handle, &step, "x", type, offset.data(), shape.data(),
                                    got.data());
    }
    std::unique_ptr<Producer> first, second;
    std::unique_ptr<Consumer> consumer;
    Step step;
    uint64_t global_width = 0;
    std::vector<int32_t> left, right, got;
};

TEST_F(boxes, are_gathered_from_all_ranks)
{
    hand_out(10, 10);
    EXPECT_EQ(read({0, 0}, {6, 10}), 0);
    for (int i = 0; i < 60; i++)
        EXPECT_EQ(got[static_cast<size_t>(i)], i);
    EXPECT_EQ(read({2, 3}, {2, 3}), 0);
    EXPECT_EQ(got, (std::vector<int32_t>{23, 24, 25, 33, 34, 35}));
    EXPECT_EQ(read({5, 9}, {1, 1}), 0);
    EXPECT_EQ(got[0], 59);
    EXPECT_EQ(read({5, 9}, {1, 2}), -EINVAL);
    EXPECT_TRUE(says("the box ends at 11 of dimension 1, the global array at 10")) << message();
    EXPECT_EQ(read({0, 0}, {6, 10}, ONESPACE_INSITU_INT64), -EPROTOTYPE);
}

TEST_F(boxes, that_no_rank_covers_are_an_error)
{
    hand_out(11, 11);
    EXPECT_EQ(read({0, 0}, {6, 10}), 0);
    EXPECT_EQ(read({0, 0}, {6, 11}), -ENOENT);
    EXPECT_TRUE(says("have 60 of the box's 66 elements")) << message();
}

TEST_F(boxes, of_ranks_that_contradict_one_another_are_an_error)
{
    hand_out(10, 12);
    EXPECT_EQ(read({0, 0}, {6, 10}), -EINVAL);
    EXPECT_TRUE(says("contradict")) << message();
}

TEST_F(ranks, and_consumers_of_any_number_work_at_once)
{
    static constexpr unsigned Ranks = 3, Consumers = 4;
    static constexpr long Steps = 300;
    for (int policy : {ONESPACE_INSITU_WAIT, ONESPACE_INSITU_COPY}) {
        std::vector<std::thread> threads;
        for (unsigned r = 0; r < Ranks; r++)
            threads.emplace_back([=] {
                Producer producer("channel", [=](Options &o) {
                    rank_of(r, Ranks, policy, 2)(o);
                    o.consumers = Consumers;
                });
                ASSERT_EQ(producer.result, 0) << message();
                producer.use_sets(2);
                for (uint64_t i = 1; i <= Steps; i++)
                    ASSERT_EQ(producer.give(i, Patience), 0) << message();
                EXPECT_EQ(producer.close(Patience), 0);
            });
        for (unsigned c = 0; c < Consumers; c++)
            threads.emplace_back([=] {
                Consumer consumer(c % 2 ? ONESPACE_INSITU_EVERY : ONESPACE_INSITU_LATEST, "channel",
                                  Patience);
                long seen = 0, count = 0, next;
                while ((next = consumer.next(Patience)) > 0) {
                    EXPECT_GT(next, seen);
                    seen = next;
                    count++;
                }
                EXPECT_EQ(next, -ENODATA) << message();
                EXPECT_EQ(seen, Steps);
                EXPECT_TRUE(c % 2 == 0 || count == Steps) << count;
            });
        for (std::thread &thread : threads)
            thread.join();
    }
}
