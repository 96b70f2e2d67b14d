// tests/storage/file/hints_test.cpp: valid hints are read, others refused by name.
#include <map>

#include "region.hpp"

namespace
{
using Pairs = std::map<std::string, std::string>;

const char *look_up(void *context, const char *key)
{
    auto &pairs = *static_cast<Pairs *>(context);
    auto found = pairs.find(key);
    return found == pairs.end() ? nullptr : found->second.c_str();
}

class hints : public testing::Test
{
  protected:
    int read(const Pairs &more)
    {
        Pairs pairs = {{"alloc_type", "storage"}, {"storage_alloc_filename", "/x/y"}};
        for (auto &[key, value] : more)
            pairs[key] = value;
        storage_hints_clear(&found);
        return storage_hints_read(&found, look_up, &pairs, &error);
    }
    void refused(const char *key, const char *value)
    {
        EXPECT_EQ(read({{key, value}}), -EINVAL) << key << "=" << value;
        std::string text = error.text;
        EXPECT_NE(text.find(std::string(key) + " has the value \"" + value + "\": allowed is "),
                  std::string::npos)
            << text;
    }
    ~hints() override
    {
        storage_hints_clear(&found);
    }
    storage_hints found = {};
    storage_error error = {};
};
} // namespace

TEST_F(hints, default_to_all_on_storage)
{
    ASSERT_EQ(read({}), 0) << error.text;
    EXPECT_TRUE(found.is_storage);
    EXPECT_STREQ(found.filename, "/x/y");
    EXPECT_EQ(found.factor, 1);
    EXPECT_EQ(found.offset, 0u);
    EXPECT_EQ(found.perm, 0600u);
    EXPECT_FALSE(found.unlink || found.discard || found.storage_first || found.style);
    EXPECT_EQ(found.versions, 0u);
}

TEST_F(hints, are_not_looked_at_for_memory)
{
    EXPECT_EQ(read({{"alloc_type", "memory"}, {"storage_alloc_factor", "nonsense"}}), 0);
    EXPECT_FALSE(found.is_storage);
}

TEST_F(hints, say_that_the_file_name_is_missing)
{
    Pairs pairs = {{"alloc_type", "storage"}};
    EXPECT_EQ(storage_hints_read(&found, look_up, &pairs, &error), -EINVAL);
    EXPECT_NE(std::string(error.text).find("storage_alloc_filename is missing"), std::string::npos);
}

TEST_F(hints, are_all_read)
{
    ASSERT_EQ(read({{"storage_alloc_offset", "1000"},
                    {"storage_alloc_factor", "auto"},
                    {"storage_alloc_order", "storage_first"},
                    {"storage_alloc_unlink", "true"},
                    {"storage_alloc_discard", "true"},
                    {"access_style", "read_mostly,random"},
                    {"file_perm", "0644"},
                    {"striping_factor", "8"},
                    {"striping_unit", "131072"},
                    {"storage_alloc_versions", "3"}}),
              0)
        << error.text;
    EXPECT_EQ(found.offset, 1000u);
    EXPECT_EQ(found.factor, STORAGE_FACTOR_AUTO);
    EXPECT_TRUE(found.storage_first && found.unlink && found.discard);
    EXPECT_EQ(found.style, unsigned(STORAGE_READ_MOSTLY | STORAGE_RANDOM | STORAGE_VERSIONED));
    EXPECT_EQ(found.perm, 0644u);
    EXPECT_EQ(found.striping_factor, 8u);
    EXPECT_EQ(found.striping_unit, 131072u);
    EXPECT_EQ(found.versions, 3u);
    char name[64];
    storage_style_name(found.style, name, sizeof(name));
    EXPECT_STREQ(name, "read_mostly,random");
}

TEST_F(hints, know_the_short_name_of_memory_first)
{
    ASSERT_EQ(read({{"storage_alloc_order", "mem_first"}}), 0) << error.text;
    EXPECT_FALSE(found.storage_first);
}

TEST_F(hints, of_bad_values_are_refused_by_name)
{
    refused("alloc_type", "disk");
    refused("storage_alloc_filename", "");
    for (auto value : {"", "-1", "+1", " 1", "1k", "0x10", "99999999999999999999"})
        refused("storage_alloc_offset", value);
    for (auto value : {"", "1.01", "-0.5", "nan", "inf", "half", "0.5x"})
        refused("storage_alloc_factor", value);
    refused("storage_alloc_order", "storage");
    refused("storage_alloc_unlink", "1");
    refused("storage_alloc_discard", "TRUE");
    for (auto value : {"", "read", "read_once,", "random,sequential"})
        refused("access_style", value);
    for (auto value : {"", "rw", "08", "0x1ff", "0640 ", "-1", "+1", "512", "01000", "1000000000",
                       "99999999999999999999"})
        refused("file_perm", value);
    refused("striping_factor", "0");
    refused("striping_unit", "65537");
    refused("storage_alloc_versions", "1001");
}

/* The paper's authors print the mode_t with %d. */
TEST_F(hints, read_permissions_as_octal_with_a_leading_zero_else_as_decimal)
{
    const std::pair<const char *, mode_t> values[] = {
        {"384", 0600},  {"0600", 0600}, {"416", 0640}, {"0640", 0640}, {"511", 0777},
        {"0777", 0777}, {"8", 010},     {"0", 0},      {"00", 0},      {"0000640", 0640},
    };
    for (auto &[value, perm] : values) {
        ASSERT_EQ(read({{"file_perm", value}}), 0) << error.text;
        EXPECT_EQ(found.perm, perm) << value;
    }
}

TEST_F(hints, that_are_no_permissions_are_refused_with_both_readings)
{
    const std::pair<const char *, const char *> values[] = {
        {"640", "this is 01200 read as decimal, 0640 read as octal"},
        {"777", "this is 01411 read as decimal, 0777 read as octal"},
        {"01777", "this is 03361 read as decimal, 01777 read as octal"},
        {"999", "this is 01747 read as decimal, no number read as octal"},
        {"0800", "this is 01440 read as decimal, no number read as octal"},
    };
    for (auto &[value, readings] : values) {
        refused("file_perm", value);
        EXPECT_NE(std::string(error.text).find(readings), std::string::npos) << error.text;
    }
}

TEST_F(hints, divide_a_window_at_whole_pages)
{
    storage_layout layout;
    ASSERT_EQ(read({{"storage_alloc_factor", "0.5"}}), 0);
    ASSERT_EQ(storage_layout_divide(&layout, &found, 0.5, 100000, &error), 0);
    EXPECT_EQ(layout.memory_length % 4096, 0u);
    EXPECT_EQ(layout.memory_length + layout.storage_length, 100000u);
    EXPECT_GE(layout.storage_length, 50000u);
    EXPECT_LT(layout.storage_length, 50000u + 4096);
    found.offset = 100;
    EXPECT_EQ(storage_layout_divide(&layout, &found, 0.5, 100000, &error), -EINVAL);
    found.storage_first = 1;
    ASSERT_EQ(storage_layout_divide(&layout, &found, 0.5, 100000, &error), 0);
    EXPECT_EQ((100 + layout.storage_length) % 4096, 0u);
}
