// tests/storage/versions/solo.hpp: a window with versions of one rank, in this process. Its bytes
// are plain memory; what was stored is what store() was told.
#ifndef TESTS_STORAGE_SOLO_HPP
#define TESTS_STORAGE_SOLO_HPP

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "versions.hpp"

struct Solo {
    std::vector<char> bytes;
    std::vector<storage_range> stored;
    bool is_unsure = false;                          // what changed is not known
    std::vector<std::pair<uint64_t, uint64_t>> told; // of a commit's progress: done, of
    versions *made = nullptr;
    storage_error error = {};

    explicit Solo(size_t size) : bytes(size)
    {
    }
    ~Solo()
    {
        versions_close(made);
    }
    Solo(const Solo &) = delete;
    Solo &operator=(const Solo &) = delete;

    static int changes(void *context, storage_ranges *ranges)
    {
        Solo *solo = static_cast<Solo *>(context);
        auto &list = solo->stored;
        if (solo->is_unsure)
            list = {{0, solo->bytes.size()}};
        ranges->range =
            static_cast<storage_range *>(calloc(list.size() + 1, sizeof(storage_range)));
        std::copy(list.begin(), list.end(), ranges->range);
        ranges->count = list.size();
        list.clear();
        return solo->is_unsure;
    }
    static void progress(void *context, uint64_t done, uint64_t of)
    {
        static_cast<Solo *>(context)->told.push_back({done, of});
    }
    static int broadcast(void *, void *, size_t)
    {
        return 0;
    }
    static int least(void *, int64_t mine, int64_t *result)
    {
        *result = mine;
        return 0;
    }
    int open(const std::string &path, unsigned keep = 1, const versions_io *io = nullptr)
    {
        versions_part part = {path.c_str(), bytes.data(), bytes.size(), 1, 0,
                              changes,      this,         progress};
        versions_group group = {nullptr, 0, 1, broadcast, least};
        return versions_open(&part, &group, keep, io, &made, &error);
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
};

#endif
