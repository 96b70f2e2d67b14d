// tests/storage/versions/window.hpp: a rank's window with versions, in this process. Its bytes are
// plain memory; only store() changes them.
#ifndef TESTS_STORAGE_WINDOW_HPP
#define TESTS_STORAGE_WINDOW_HPP

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "versions.hpp"

struct Window {
    std::vector<char> bytes;
    std::vector<storage_range> stored;
    bool is_unsure = false;                             // what changed is not known
    std::vector<std::pair<uint64_t, uint64_t>> reports; // of a commit's progress: done, of
    int checks_that_hold = -1;                          // -1: all; each commit checks twice
    int is_in_file = 1;
    uint64_t offset = 0; // in the file
    versions *made = nullptr;
    storage_error error = {};

    explicit Window(size_t size) : bytes(size)
    {
    }
    ~Window()
    {
        versions_close(made);
    }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;

    static int changes(void *context, storage_ranges *ranges)
    {
        Window *window = static_cast<Window *>(context);
        auto &list = window->stored;
        if (window->is_unsure)
            list = {{0, window->bytes.size()}};
        ranges->range =
            static_cast<storage_range *>(calloc(list.size() + 1, sizeof(storage_range)));
        std::copy(list.begin(), list.end(), ranges->range);
        ranges->count = list.size();
        list.clear();
        return window->is_unsure;
    }
    static int check(void *context, storage_error *failure)
    {
        Window *window = static_cast<Window *>(context);
        if (window->checks_that_hold == 0)
            return storage_fail(failure, -EIO, "a page is lost");
        window->checks_that_hold -= window->checks_that_hold > 0;
        return 0;
    }
    static void progress(void *context, uint64_t done, uint64_t of)
    {
        static_cast<Window *>(context)->reports.push_back({done, of});
    }
    static int broadcast(void *, void *, size_t)
    {
        return 0;
    }
    static int least(void *, int64_t value, int64_t *result)
    {
        *result = value;
        return 0;
    }
    // Without a group there is one rank.
    int open(const std::string &path, unsigned keep = 1, const versions_io *io = nullptr,
             const versions_group *group = nullptr)
    {
        static const versions_group alone = {nullptr, 0, 1, broadcast, least};
        versions_part part = {path.c_str(), bytes.data(), bytes.size(), is_in_file, offset,
                              changes,      check,        this,         progress};
        return versions_open(&part, group ? group : &alone, keep, io, &made, &error);
    }
    void store(size_t at, const std::string &text)
    {
        memcpy(bytes.data() + at, text.data(), text.size());
        stored.push_back({at, text.size()});
    }
    int commit()
    {
        return versions_commit(made, &error);
    }
    void commit_times(int times)
    {
        for (int i = 0; i < times; i++)
            ASSERT_EQ(commit(), 0) << error.text;
    }
};

#endif
