// tests/mpi/types/reduce_test.cpp: the loops for wider registers give the same bits as the plain
// ones.
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "mpi/types/reduce_loops.h"
}

namespace
{

constexpr std::size_t widest = 32; // bytes of an element: two long doubles

bool runs_here(const reduce_table &table)
{
    if (&table == &reduce_table_v4)
        return __builtin_cpu_supports("x86-64-v4");
    return __builtin_cpu_supports("x86-64-v3");
}

template <typename Value> void put_numbers(std::vector<char> &to, std::mt19937 &random)
{
    std::uniform_real_distribution<double> some(-1000, 1000);
    for (std::size_t at = 0; at + sizeof(Value) <= to.size(); at += sizeof(Value)) {
        auto value = static_cast<Value>(some(random));
        std::memcpy(&to[at], &value, std::is_same_v<Value, long double> ? 10 : sizeof(value));
    }
}

// Any bits for integers; no NaN for floating point, since which of two NaNs is kept is undefined.
std::vector<char> operands(const reduce_row &row, std::size_t bytes, std::mt19937 &random)
{
    std::vector<char> found(bytes);
    std::size_t size = row.kind == TYPE_COMPLEX ? row.size / 2 : row.size;
    switch (row.kind) {
    case TYPE_FLOATING:
    case TYPE_COMPLEX:
        if (size == 4)
            put_numbers<float>(found, random);
        else if (size == 8)
            put_numbers<double>(found, random);
        else
            put_numbers<long double>(found, random);
        break;
    case TYPE_PAIR_FLOAT:
    case TYPE_PAIR_REALS:
        put_numbers<float>(found, random);
        break;
    case TYPE_PAIR_DOUBLE:
    case TYPE_PAIR_DOUBLES:
        put_numbers<double>(found, random);
        break;
    case TYPE_PAIR_LONG_DOUBLE:
        put_numbers<long double>(found, random);
        break;
    default:
        for (char &byte : found)
            byte = static_cast<char>(random());
    }
    return found;
}

void expect_what_the_plain_loops_give(const struct reduce_table &wide)
{
    if (!runs_here(wide))
        GTEST_SKIP() << "this CPU has no such registers";
    std::mt19937 random(1);
    ASSERT_EQ(wide.count, reduce_table_plain.count);
    int compared = 0;
    for (std::size_t i = 0; i < wide.count; i++)
        for (int operation = 0; operation < OPERATIONS; operation++) {
            const reduce_row &row = wide.rows[i];
            reduce_function *plain = reduce_table_plain.rows[i].functions[operation];
            ASSERT_EQ(row.functions[operation] == nullptr, plain == nullptr);
            for (std::size_t count : {0, 1, 7, 64, 203})
                for (std::size_t offset : {0, 3}) {
                    if (!plain)
                        continue;
                    auto target = operands(row, count * widest, random);
                    auto origin = operands(row, count * widest, random);
                    target.insert(target.begin(), offset, 0);
                    origin.insert(origin.begin(), offset, 0);
                    auto expected = target;
                    plain(expected.data() + offset, origin.data() + offset, count);
                    row.functions[operation](target.data() + offset, origin.data() + offset, count);
                    ASSERT_EQ(target, expected) << "row " << i << ", operation " << operation
                                                << ", " << count << " elements";
                    compared++;
                }
        }
    EXPECT_GT(compared, 1000);
}

TEST(Reduce, GivesTheSameWithRegistersOf256Bits)
{
    expect_what_the_plain_loops_give(reduce_table_v3);
}

TEST(Reduce, GivesTheSameWithRegistersOf512Bits)
{
    expect_what_the_plain_loops_give(reduce_table_v4);
}

} // namespace
