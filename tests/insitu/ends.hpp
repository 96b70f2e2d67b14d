// tests/insitu/ends.hpp: both ends of a channel, for the tests.
#ifndef ONESPACE_TESTS_INSITU_ENDS_HPP
#define ONESPACE_TESTS_INSITU_ENDS_HPP

#include "fixture.hpp"
#include "onespace/insitu.h"
#include "probe_channels.h"

namespace ends
{

using Options = onespace_insitu_options;
using Array = onespace_insitu_array;
using Step = onespace_insitu_step;

inline std::string message()
{
    return onespace_insitu_message();
}

inline bool says(const std::string &part)
{
    return message().find(part) != std::string::npos;
}

inline Array vector_of(const char *name, std::vector<double> &values)
{
    Array array = {};
    array.name = name;
    array.address = values.data();
    array.bytes = values.size() * sizeof(double);
    array.type = ONESPACE_INSITU_FLOAT64;
    array.dimensions = 1;
    array.shape[0] = values.size();
    return array;
}

class Producer
{
  public:
    explicit Producer(const char *name = "channel",
                      const std::function<void(Options &)> &change = nullptr)
    {
        Options options = ONESPACE_INSITU_OPTIONS_INIT;
        if (change)
            change(options);
        result = onespace_insitu_create(name, &options, &handle);
    }
    Producer(const Producer &) = delete;
    ~Producer()
    {
        close(0);
    }
    int close(int timeout_ms = 0)
    {
        int closed = onespace_insitu_close(handle, timeout_ms);
        handle = closed == 0 ? nullptr : handle;
        return closed;
    }
    int begin(uint64_t step, int timeout_ms = 0)
    {
        return onespace_insitu_begin(handle, step, timeout_ms);
    }
    int put(const Array &array)
    {
        return onespace_insitu_put(handle, &array);
    }
    int publish()
    {
        return onespace_insitu_publish(handle);
    }
    // A step with one array, all of whose elements are the step's number.
    int give(uint64_t step, int timeout_ms = 0)
    {
        int begun = begin(step, timeout_ms);
        if (begun != 0)
            return begun;
        std::vector<double> &set = sets[steps++ % sets.size()];
        set.assign(1000, static_cast<double>(step));
        int put_result = put(vector_of("x", set));
        return put_result != 0 ? put_result : publish();
    }
    // The number of sets of arrays, which is the depth.
    void use_sets(size_t count)
    {
        sets.resize(count);
    }

    onespace_insitu *handle = nullptr;
    int result;
    std::vector<std::vector<double>> sets{1};
    size_t steps = 0;
};

class Consumer
{
  public:
    explicit Consumer(int mode = ONESPACE_INSITU_LATEST, const char *name = "channel",
                      int timeout_ms = 0)
    {
        result = onespace_insitu_open(name, mode, timeout_ms, &handle);
    }
    Consumer(const Consumer &) = delete;
    ~Consumer()
    {
        close();
    }
    int close()
    {
        return onespace_insitu_close(std::exchange(handle, nullptr), 0);
    }
    int take(Step *step, int timeout_ms = 0)
    {
        return onespace_insitu_take(handle, step, timeout_ms);
    }
    int release(const Step &step)
    {
        return onespace_insitu_release(handle, &step);
    }
    int get(const Step &step, const char *name, Array *array, int type = ONESPACE_INSITU_ANY,
            unsigned rank = 0)
    {
        return onespace_insitu_get(handle, &step, rank, name, type, array);
    }
    // True if every element is the step's number.
    bool is_whole(const Step &step)
    {
        Array array;
        if (get(step, "x", &array, ONESPACE_INSITU_FLOAT64) != 0)
            return false;
        auto values = static_cast<const volatile double *>(array.address);
        for (uint64_t i = 0; i < array.shape[0]; i++)
            if (values[i] != static_cast<double>(step.step))
                return false;
        return array.shape[0] == 1000;
    }
    // Takes the next step, verifies and releases it; returns its number or -errno.
    long next(int timeout_ms = 0)
    {
        Step step;
        int taken = take(&step, timeout_ms);
        if (taken < 0)
            return taken;
        bool whole = is_whole(step);
        return release(step) == 0 && whole ? static_cast<long>(step.step) : -EBADMSG;
    }

    onespace_insitu *handle = nullptr;
    int result;
};

// A space whose channels must all be gone at the end, with everything they held.
class ChannelTest : public fixture::SpaceTest
{
  protected:
    void TearDown() override
    {
        EXPECT_TRUE(fixture::eventually([] { return probe_channels() == 0; }));
        EXPECT_EQ(probe_consumers(), 0);
        EXPECT_EQ(probe_areas(), 0);
        SpaceTest::TearDown();
    }
};

} // namespace ends

#endif
