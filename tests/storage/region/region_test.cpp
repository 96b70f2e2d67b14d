// tests/storage/region/region_test.cpp: ranges of files in memory, and their durability.
#include <csignal>
#include <cstring>

#include "region.hpp"

class region : public Region
{
};

TEST_F(region, begins_at_any_offset)
{
    for (uint64_t offset : {0, 1, 4095, 4096, 12289}) {
        storage_region mapped = {};
        map(mapped, offset, 10000);
        memset(mapped.base, 'x', 10000);
        EXPECT_EQ(storage_region_flush(&mapped, {0, 10000}, &error), 0) << error.text;
        EXPECT_EQ(byte_at(path(), static_cast<long>(offset) + 9999), 'x');
        EXPECT_EQ(size_of(path()), static_cast<long>(offset) + 10000);
        unmap(mapped);
        unlink(path().c_str());
    }
}

TEST_F(region, beside_memory_has_contiguous_addresses)
{
    for (int storage_first : {0, 1}) {
        storage_part part = {};
        storage_hints hints = hints_for(path());
        hints.storage_first = storage_first;
        open_file(part.region.file);
        ASSERT_EQ(storage_layout_divide(&part.layout, &hints, 0.3, 100000, &error), 0);
        ASSERT_EQ(storage_file_reserve(&part.region.file, {0, part.layout.storage_length}, &error),
                  0);
        ASSERT_EQ(storage_part_map(&part, -1, 0, &error), 0) << error.text;
        for (int i = 0; i < 100000; i++)
            part.base[i] = static_cast<char>(i % 251);
        EXPECT_EQ(part.region.base, part.base + (storage_first ? 0 : part.layout.memory_length));
        EXPECT_EQ(byte_at(path(), 7),
                  static_cast<int>(storage_first ? 7 : (part.layout.memory_length + 7) % 251));
        storage_file made = part.region.file;
        storage_part_unmap(&part);
        storage_file_close(&made);
    }
}

TEST_F(region, whose_file_was_cut_is_an_error_and_no_crash)
{
    storage_region mapped = {};
    map(mapped, 100, 20 * Page);
    ASSERT_EQ(truncate(path().c_str(), Page), 0);
    mapped.base[10 * Page] = 1; /* would be SIGBUS */
    mapped.base[10 * Page + 1] = 2;
    EXPECT_EQ(mapped.base[10 * Page + 1], 2);
    EXPECT_EQ(storage_region_flush(&mapped, {0, 20 * Page}, &error), -EIO);
    EXPECT_NE(std::string(error.text).find("was cut below the end"), std::string::npos);
    ASSERT_EQ(truncate(path().c_str(), 30 * Page), 0);
    EXPECT_EQ(storage_region_flush(&mapped, {0, Page}, &error), -EIO) << "it stays failed";
    unmap(mapped);
}

TEST_F(region, that_failed_by_a_fault_alone_fails_at_the_next_flush)
{
    storage_region mapped = {};
    map(mapped, 0, 8 * Page);
    ASSERT_EQ(truncate(path().c_str(), Page), 0);
    mapped.base[5 * Page] = 1;
    ASSERT_EQ(truncate(path().c_str(), 8 * Page), 0);
    EXPECT_EQ(storage_region_flush(&mapped, {0, Page}, &error), -EIO);
    unmap(mapped);
}

TEST_F(region, leaves_other_bus_errors_to_who_had_them)
{
    EXPECT_EXIT(
        {
#ifdef __SANITIZE_ADDRESS__
            signal(SIGBUS, SIG_DFL); // AddressSanitizer has a handler, which exits
#endif
            storage_region mapped = {};
            map(mapped, 0, Page);
            int fd = open(path("other").c_str(), O_RDWR | O_CREAT, 0600);
            auto *other = static_cast<volatile char *>(
                mmap(nullptr, Page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
            *other = 1;
        },
        testing::KilledBySignal(SIGBUS), "");
    EXPECT_EXIT(
        {
            struct sigaction action = {};
            action.sa_handler = [](int) { _exit(42); };
            sigaction(SIGBUS, &action, nullptr);
            storage_region mapped = {};
            map(mapped, 0, Page);
            int fd = open(path("other").c_str(), O_RDWR | O_CREAT, 0600);
            auto *other = static_cast<volatile char *>(
                mmap(nullptr, Page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
            *other = 1;
        },
        testing::ExitedWithCode(42), "");
}
