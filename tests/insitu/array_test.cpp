// tests/insitu/array_test.cpp: descriptions of arrays, valid and inconsistent ones.
#include <sys/mman.h>

#include "ends.hpp"

using namespace fixture;
using namespace ends;

class arrays : public ChannelTest
{
  protected:
    void SetUp() override
    {
        ChannelTest::SetUp();
        producer = std::make_unique<Producer>();
        consumer = std::make_unique<Consumer>();
        ASSERT_EQ(producer->begin(1), 0);
    }
    void TearDown() override
    {
        consumer.reset();
        producer.reset();
        ChannelTest::TearDown();
    }
    void publish()
    {
        ASSERT_EQ(producer->publish(), 0);
        ASSERT_EQ(consumer->take(&step), 0);
    }
    std::vector<double> values = std::vector<double>(120);
    Array array = vector_of("x", values);
    std::unique_ptr<Producer> producer;
    std::unique_ptr<Consumer> consumer;
    Step step;
};

TEST_F(arrays, are_described_in_full)
{
    array.units = "m s-1";
    array.dimensions = 3;
    array.shape[0] = 2, array.shape[1] = 3, array.shape[2] = 4;
    array.global_shape[0] = 20, array.global_shape[1] = 3, array.global_shape[2] = 4;
    array.offset[0] = 18;
    EXPECT_EQ(producer->put(array), 0);
    publish();
    Array got;
    ASSERT_EQ(consumer->get(step, "x", &got), 0);
    EXPECT_STREQ(got.name, "x");
    EXPECT_STREQ(got.units, "m s-1");
    EXPECT_EQ(got.type, ONESPACE_INSITU_FLOAT64);
    EXPECT_EQ(got.dimensions, 3u);
    EXPECT_EQ(got.bytes, 192u);
    EXPECT_EQ(got.strides[0], 96);
    EXPECT_EQ(got.strides[1], 32);
    EXPECT_EQ(got.strides[2], 8);
    EXPECT_EQ(got.shape[2], 4u);
    EXPECT_EQ(got.shape[3], 0u);
    EXPECT_EQ(got.global_shape[0], 20u);
    EXPECT_EQ(got.offset[0], 18u);
}

TEST_F(arrays, are_listed)
{
    EXPECT_EQ(producer->put(array), 0);
    array.name = "y";
    EXPECT_EQ(producer->put(array), 0);
    publish();
    Array got;
    EXPECT_EQ(onespace_insitu_array_at(consumer->handle, &step, 0, 0, &got), 0);
    EXPECT_STREQ(got.name, "x");
    EXPECT_EQ(onespace_insitu_array_at(consumer->handle, &step, 0, 1, &got), 0);
    EXPECT_STREQ(got.name, "y");
    EXPECT_EQ(onespace_insitu_array_at(consumer->handle, &step, 0, 2, &got), -ENOENT);
    EXPECT_EQ(onespace_insitu_array_at(consumer->handle, &step, 1, 0, &got), -EINVAL);
}

TEST_F(arrays, that_are_missing_are_an_error_that_says_what_there_is)
{
    EXPECT_EQ(producer->put(array), 0);
    array.name = "fields/velocity/values/u";
    EXPECT_EQ(producer->put(array), 0);
    publish();
    Array got = {};
    EXPECT_EQ(consumer->get(step, "z", &got), -ENOENT);
    EXPECT_TRUE(says("no array 'z'; it has 'x', 'fields/velocity/values/u'")) << message();
    EXPECT_EQ(got.address, nullptr);
}

TEST_F(arrays, of_another_type_are_an_error)
{
    EXPECT_EQ(producer->put(array), 0);
    publish();
    Array got = {};
    EXPECT_EQ(consumer->get(step, "x", &got, ONESPACE_INSITU_FLOAT32), -EPROTOTYPE);
    EXPECT_TRUE(says("'x' is of type float64, not float32")) << message();
    EXPECT_EQ(got.address, nullptr);
}

TEST_F(arrays, that_do_not_fit_into_their_memory_are_refused)
{
    array.shape[0] = 121;
    EXPECT_EQ(producer->put(array), -EINVAL);
    EXPECT_TRUE(says("span 968 bytes, but it has 960")) << message();
    array.shape[0] = 61;
    array.strides[0] = 16;
    EXPECT_EQ(producer->put(array), -EINVAL);
    array.shape[0] = 60;
    EXPECT_EQ(producer->put(array), 0);
}

TEST_F(arrays, that_reach_into_unmapped_memory_are_refused)
{
    constexpr size_t Size = 64 << 20; // more than is checked at once
    char *memory = static_cast<char *>(
        mmap(nullptr, Size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(memory + Size, 4096);
    array.address = memory;
    array.bytes = 0;
    array.shape[0] = Size / 8 + 1;
    EXPECT_EQ(producer->put(array), -EFAULT);
    EXPECT_TRUE(says("some are not mapped")) << message();
    array.shape[0] = Size / 8;
    EXPECT_EQ(producer->put(array), 0);
    munmap(memory, Size);
}

TEST_F(arrays, that_were_good_are_asked_about_again_when_they_grow)
{
    char *memory = static_cast<char *>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(memory + 4096, 4096);
    array.address = memory;
    array.bytes = 0;
    array.shape[0] = 512;
    EXPECT_EQ(producer->put(array), 0);
    EXPECT_EQ(producer->publish(), 0);
    EXPECT_EQ(producer->begin(2), 0);
    array.shape[0] = 513;
    EXPECT_EQ(producer->put(array), -EFAULT);
    munmap(memory, 4096);
}

TEST_F(arrays, larger_than_any_memory_are_refused)
{
    array.bytes = 0;
    array.dimensions = 2;
    array.shape[0] = array.shape[1] = UINT64_C(1) << 33;
    EXPECT_EQ(producer->put(array), -EINVAL);
    array.dimensions = 1;
    array.shape[0] = UINT64_MAX / 4;
    EXPECT_EQ(producer->put(array), -EINVAL);
    array.shape[0] = 3;
    array.strides[0] = INT64_MAX;
    EXPECT_EQ(producer->put(array), -EINVAL);
    EXPECT_TRUE(says("more than any memory")) << message();
}

TEST_F(arrays, whose_elements_overlap_are_refused)
{
    array.shape[0] = 2;
    array.strides[0] = 4;
    EXPECT_EQ(producer->put(array), -EINVAL);
    EXPECT_TRUE(says("elements overlap")) << message();
    array.strides[0] = -8;
    EXPECT_EQ(producer->put(array), -EINVAL);
    array.dimensions = 2; // rows of three at a stride of two: they overlap
    array.shape[0] = 4, array.shape[1] = 3;
    array.strides[0] = 16, array.strides[1] = 8;
    EXPECT_EQ(producer->put(array), -EINVAL);
    array.strides[0] = 24;
    EXPECT_EQ(producer->put(array), 0);
}

TEST_F(arrays, outside_their_global_shape_are_refused)
{
    array.global_shape[0] = 200;
    array.offset[0] = 81;
    EXPECT_EQ(producer->put(array), -EINVAL);
    EXPECT_TRUE(says("global shape's 200 of dimension 0")) << message();
    array.offset[0] = UINT64_MAX;
    EXPECT_EQ(producer->put(array), -EINVAL);
    array.offset[0] = 80;
    EXPECT_EQ(producer->put(array), 0);
}

TEST_F(arrays, with_fields_out_of_range_are_refused)
{
    auto refused = [&](const std::function<void(Array &)> &change) {
        Array wrong = array;
        change(wrong);
        return producer->put(wrong);
    };
    std::string long_name(64, 'n'), long_units(32, 'u');
    EXPECT_EQ(refused([](Array &a) { a.name = ""; }), -EINVAL);
    EXPECT_EQ(refused([&](Array &a) { a.name = long_name.c_str(); }), -ENAMETOOLONG);
    EXPECT_EQ(refused([&](Array &a) { a.units = long_units.c_str(); }), -ENAMETOOLONG);
    EXPECT_EQ(refused([](Array &a) { a.type = ONESPACE_INSITU_ANY; }), -EINVAL);
    EXPECT_EQ(refused([](Array &a) { a.type = 11; }), -EINVAL);
    EXPECT_EQ(refused([](Array &a) { a.dimensions = 0; }), -EINVAL);
    EXPECT_EQ(refused([](Array &a) { a.dimensions = 5; }), -EINVAL);
    EXPECT_EQ(refused([](Array &a) { a.address = nullptr; }), -EINVAL);
}

TEST_F(arrays, may_be_empty)
{
    array.address = nullptr;
    array.bytes = array.shape[0] = 0;
    EXPECT_EQ(producer->put(array), 0);
    publish();
    Array got;
    EXPECT_EQ(consumer->get(step, "x", &got), 0);
    EXPECT_EQ(got.shape[0], 0u);
    EXPECT_EQ(got.bytes, 0u);
}

TEST_F(arrays, of_one_name_are_refused)
{
    EXPECT_EQ(producer->put(array), 0);
    EXPECT_EQ(producer->put(array), -EEXIST);
    EXPECT_EQ(producer->publish(), 0);
    EXPECT_EQ(producer->begin(2), 0); // also where the step before had another name
    EXPECT_EQ(producer->put(array), 0);
    EXPECT_EQ(producer->put(array), -EEXIST);
}

TEST_F(arrays, are_so_many_at_most)
{
    for (int i = 0; i < ONESPACE_INSITU_ARRAYS; i++) {
        std::string name = "a" + std::to_string(i);
        array.name = name.c_str();
        ASSERT_EQ(producer->put(array), 0) << i;
    }
    array.name = "one more";
    EXPECT_EQ(producer->put(array), -ENOSPC);
}

TEST_F(arrays, have_attributes_beside_them)
{
    onespace_insitu_attribute number = {"state/time", ONESPACE_INSITU_NUMBER, 0, 0.5, nullptr},
                              integer = {"state/cycle", ONESPACE_INSITU_INTEGER, -3, 0, nullptr},
                              text = {"title", ONESPACE_INSITU_TEXT, 0, 0, "argon"}, got;
    EXPECT_EQ(onespace_insitu_put_attribute(producer->handle, &number), 0);
    EXPECT_EQ(onespace_insitu_put_attribute(producer->handle, &integer), 0);
    EXPECT_EQ(onespace_insitu_put_attribute(producer->handle, &text), 0);
    EXPECT_EQ(onespace_insitu_put_attribute(producer->handle, &text), -EEXIST);
    std::string long_text(128, 't');
    text.name = "long", text.text = long_text.c_str();
    EXPECT_EQ(onespace_insitu_put_attribute(producer->handle, &text), -ENAMETOOLONG);
    text.type = 3;
    EXPECT_EQ(onespace_insitu_put_attribute(producer->handle, &text), -EINVAL);
    publish();
    auto get = [&](const char *name) {
        return onespace_insitu_get_attribute(consumer->handle, &step, 0, name, &got);
    };
    EXPECT_EQ(get("state/time"), 0);
    EXPECT_EQ(got.number, 0.5);
    EXPECT_EQ(get("state/cycle"), 0);
    EXPECT_EQ(got.integer, -3);
    EXPECT_EQ(get("title"), 0);
    EXPECT_STREQ(got.text, "argon");
    EXPECT_EQ(get("nothing"), -ENOENT);
    EXPECT_EQ(onespace_insitu_attribute_at(consumer->handle, &step, 0, 2, &got), 0);
    EXPECT_STREQ(got.name, "title");
    EXPECT_EQ(onespace_insitu_attribute_at(consumer->handle, &step, 0, 3, &got), -ENOENT);
}
