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
        EXPECT_EQ(storage_region_flush(&mapped, mapped.file.fd, {0, 10000}, &error), 0)
            << error.text;
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

TEST_F(region, of_memory_alone_has_any_length)
{
    storage_part part = {};
    part.region.file.fd = -1;
    part.layout.memory_length = 100001;
    ASSERT_EQ(storage_part_map(&part, -1, 0, &error), 0) << error.text;
    memset(part.base, 1, 100001);
    storage_part_unmap(&part);
}

// Whether one entry of the page table may map 2 MiB of the file there.
static bool may_be_huge(const storage_region &region)
{
    auto mapping = reinterpret_cast<uintptr_t>(region.mapping);
    return (mapping - region.file_offset / storage_page_size() * storage_page_size()) %
               storage_folio_max() ==
           0;
}

TEST_F(region, with_versions_is_mapped_by_small_pages)
{
    for (uint64_t offset : {uint64_t{0}, 3 * Page + 100}) {
        for (unsigned style : {0u, unsigned{STORAGE_SEQUENTIAL}}) {
            storage_region plain = {}, versioned = {};
            open_file(plain.file);
            open_file(versioned.file);
            ASSERT_EQ(
                storage_region_map(&plain, offset, 2 * storage_folio_max(), nullptr, style, &error),
                0);
            ASSERT_EQ(storage_region_map(&versioned, offset, 2 * storage_folio_max(), nullptr,
                                         style | STORAGE_VERSIONED, &error),
                      0);
            EXPECT_TRUE(may_be_huge(plain) || !style);
            EXPECT_FALSE(may_be_huge(versioned));
            unmap(plain);
            unmap(versioned);
        }
    }
}

TEST_F(region, with_versions_beside_memory_is_mapped_by_small_pages)
{
    for (int storage_first : {0, 1}) {
        storage_part part = {};
        open_file(part.region.file);
        part.layout = {0, 2 * storage_folio_max(), 5 * Page, storage_first};
        ASSERT_EQ(storage_part_map(&part, -1, STORAGE_SEQUENTIAL | STORAGE_VERSIONED, &error), 0)
            << error.text;
        EXPECT_FALSE(may_be_huge(part.region));
        storage_file file = part.region.file;
        storage_part_unmap(&part);
        storage_file_close(&file);
    }
}

// As another process of the node maps it, too.
TEST_F(region, that_is_a_copy_reaches_the_file_by_flushes)
{
    constexpr size_t Size = 100000;
    for (int storage_first : {0, 1}) {
        storage_part parts[2] = {};
        storage_part &own = parts[0], &other = parts[1];
        storage_hints hints = hints_for(path());
        hints.storage_first = storage_first;
        hints.offset = storage_first ? 5001 : 2 * Page;
        auto offset = static_cast<long>(hints.offset);
        open_file(own.region.file);
        const std::string before(2 * Size, 'o');
        ASSERT_EQ(pwrite(own.region.file.fd, before.data(), before.size(), 0),
                  static_cast<ssize_t>(before.size()));
        ASSERT_EQ(storage_layout_divide(&own.layout, &hints, 0.5, Size, &error), 0);
        size_t length = own.layout.storage_length;
        int memory = memfd_create("part", MFD_CLOEXEC), fd = own.region.file.fd;
        ASSERT_EQ(
            ftruncate(memory, static_cast<off_t>(own.layout.memory_length + length + 2 * Page)), 0);
        other.layout = own.layout;
        other.region.file.fd = -1;
        for (storage_part &part : parts) {
            part.region.is_copy = 1;
            ASSERT_EQ(storage_part_map(&part, memory, 0, &error), 0) << error.text;
            EXPECT_EQ(part.region.base,
                      part.base + (storage_first ? 0 : part.layout.memory_length));
        }
        ASSERT_EQ(storage_region_read(&own.region, &error), 0) << error.text;
        EXPECT_EQ(memcmp(own.region.base, before.data(), length), 0);

        memset(own.base, 'x', Size);
        EXPECT_EQ(byte_at(path(), offset + 10), 'o');
        EXPECT_EQ(storage_region_flush(&own.region, fd, {10, 5}, &error), 0) << error.text;
        EXPECT_EQ(byte_at(path(), offset + 9), 'o');
        EXPECT_EQ(byte_at(path(), offset + 10), 'x');
        EXPECT_EQ(byte_at(path(), offset + 14), 'x');
        EXPECT_EQ(byte_at(path(), offset + 15), 'o');

        EXPECT_EQ(other.region.base[length - 1], 'x');
        other.region.base[length - 1] = 'y';
        EXPECT_EQ(storage_region_flush(&other.region, fd, {0, length}, &error), 0) << error.text;
        EXPECT_EQ(byte_at(path(), offset - 1), 'o');
        EXPECT_EQ(byte_at(path(), offset + static_cast<long>(length) - 1), 'y');
        EXPECT_EQ(byte_at(path(), offset + static_cast<long>(length)), 'o');

        int read_only = open(path().c_str(), O_RDONLY | O_CLOEXEC);
        EXPECT_EQ(storage_region_flush(&own.region, read_only, {0, length}, &error), -EBADF);
        close(read_only);
        EXPECT_EQ(storage_region_flush(&own.region, fd, {0, length}, &error), 0) << "as before";

        ASSERT_EQ(truncate(path().c_str(), static_cast<off_t>(Page)), 0);
        EXPECT_EQ(storage_region_flush(&own.region, fd, {0, length}, &error), -EIO);
        EXPECT_EQ(size_of(path()), static_cast<long>(Page)) << "the loss is not hidden";
        EXPECT_EQ(storage_region_read(&own.region, &error), -EIO);
        storage_file file = own.region.file;
        for (storage_part &part : parts)
            storage_part_unmap(&part);
        storage_file_close(&file);
        close(memory);
        unlink(path().c_str());
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
    EXPECT_EQ(storage_region_flush(&mapped, mapped.file.fd, {0, 20 * Page}, &error), -EIO);
    EXPECT_NE(std::string(error.text).find("was cut below the end"), std::string::npos);
    ASSERT_EQ(truncate(path().c_str(), 30 * Page), 0);
    EXPECT_EQ(storage_region_flush(&mapped, mapped.file.fd, {0, Page}, &error), -EIO)
        << "it stays failed";
    unmap(mapped);
}

TEST_F(region, that_failed_by_a_fault_alone_fails_at_the_next_flush)
{
    storage_region mapped = {};
    map(mapped, 0, 8 * Page);
    ASSERT_EQ(truncate(path().c_str(), Page), 0);
    mapped.base[5 * Page] = 1;
    ASSERT_EQ(truncate(path().c_str(), 8 * Page), 0);
    EXPECT_EQ(storage_region_flush(&mapped, mapped.file.fd, {0, Page}, &error), -EIO);
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
