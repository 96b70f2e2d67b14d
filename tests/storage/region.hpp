// tests/storage/region.hpp: what the tests of src/storage share.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

// C++20 has no _Atomic: volatile has the same layout, and there is one thread here.
#include <stdatomic.h>
#define _Atomic volatile
extern "C" {
#include "storage/region/region.h"
}
#undef _Atomic

class Region : public testing::Test
{
  protected:
    void SetUp() override
    {
        directory = place() + "/onespace-storage-XXXXXX";
        ASSERT_NE(mkdtemp(directory.data()), nullptr);
    }
    // Not /tmp, which may be memory.
    virtual std::string place() const
    {
        return "/var/tmp";
    }
    void TearDown() override
    {
        std::string command = "rm -rf " + directory;
        EXPECT_EQ(system(command.c_str()), 0);
    }
    std::string path(const char *name = "file") const
    {
        return directory + "/" + name;
    }
    storage_hints hints_for(const std::string &file)
    {
        named = file;
        storage_hints hints = {};
        hints.is_storage = 1;
        hints.filename = named.data();
        hints.factor = 1;
        hints.perm = 0600;
        return hints;
    }
    void open_file(storage_file &file)
    {
        storage_hints hints = hints_for(path());
        ASSERT_EQ(storage_file_open(&file, &hints, &error), 0) << error.text;
    }
    void map(storage_region &region, uint64_t offset, size_t length)
    {
        open_file(region.file);
        ASSERT_EQ(storage_file_reserve(&region.file, {offset, length}, &error), 0) << error.text;
        ASSERT_EQ(storage_region_map(&region, offset, length, nullptr, 0, &error), 0) << error.text;
    }
    void unmap(storage_region &region)
    {
        storage_region_unmap(&region);
        storage_file_close(&region.file);
    }
    static long size_of(const std::string &file)
    {
        struct stat status;
        return stat(file.c_str(), &status) == 0 ? static_cast<long>(status.st_size) : -1;
    }
    // Not through the mapping.
    static int byte_at(const std::string &file, long offset)
    {
        unsigned char byte = 0;
        int fd = open(file.c_str(), O_RDONLY);
        EXPECT_EQ(pread(fd, &byte, 1, offset), 1);
        close(fd);
        return byte;
    }
    static constexpr size_t Page = 4096;
    std::string directory, named;
    storage_error error = {};
};
