// bench/ghost/part.hpp: a rank's part of a mesh, read from a file of meshes.py, and the
// computation that the benchmark does between two updates.
#ifndef BENCH_GHOST_PART_HPP
#define BENCH_GHOST_PART_HPP

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <onespace/sync/ghost_lists.hpp>
#include <stdexcept>

struct neighbour {
    int rank;
    std::vector<int> send; // ascending; receives ghosts [first, first + received)
    int first, received;
    bool in_one_piece() const // the points to send are contiguous: no packing
    {
        return send.back() - send.front() + 1 == static_cast<int>(send.size());
    }
    int sent() const
    {
        return static_cast<int>(send.size());
    }
};

struct part {
    int own = 0, inner = 0; // points; those before `inner` are not sent
    std::vector<neighbour> neighbours;
    std::vector<std::int64_t> ids; // of all points, ghosts included
    std::vector<double> vector;
    std::int64_t updates = 0;

    // Ids are below 2^22, so that id and number of the update fit a double's 53 bits.
    static constexpr double step = 1 << 22;

    std::vector<onespace::sync::ghost_neighbour> lists() const
    {
        std::vector<onespace::sync::ghost_neighbour> all;
        for (const auto &with : neighbours) {
            std::vector<int> receive(with.received);
            std::iota(receive.begin(), receive.end(), with.first);
            all.push_back({with.rank, with.send, receive});
        }
        return all;
    }
    // Stands for a computation: changes all values that neighbours have copies of.
    void compute()
    {
        updates++;
        for (int i = inner; i < own; i++)
            vector[i] += step;
    }
    bool is_right() const
    {
        for (std::size_t i = own; i < vector.size(); i++)
            if (vector[i] != static_cast<double>(ids[i]) + step * static_cast<double>(updates))
                return false;
        return true;
    }
};

// Throws std::runtime_error. See meshes.py for the format.
inline part read_part(const char *path, int rank, int ranks)
{
    std::FILE *file = std::fopen(path, "rb");
    auto fail = [&](const char *what) {
        if (file)
            std::fclose(file);
        throw std::runtime_error(std::string(path) + ": " + what);
    };
    if (!file)
        fail("cannot be opened");
    std::vector<std::int32_t> head(3 + ranks);
    if (std::fread(head.data(), 4, head.size(), file) != head.size() || head[0] != 0x74736867 ||
        head[1] != ranks)
        fail("holds no lists for so many ranks");
    std::vector<std::int32_t> words(head[3 + rank] - head[2 + rank]);
    if (std::fseek(file, 4L * head[2 + rank], SEEK_SET) != 0 ||
        std::fread(words.data(), 4, words.size(), file) != words.size())
        fail("ends early");
    std::fclose(file);
    part made;
    auto at = words.begin();
    made.own = made.inner = *at++;
    int count = *at++, ghost = made.own;
    for (int i = 0; i < count; i++) {
        neighbour with{at[0], {}, ghost, at[2]};
        with.send.assign(at + 3, at + 3 + at[1]);
        made.inner = std::min(made.inner, with.send.front());
        ghost += with.received;
        at += 3 + at[1];
        made.neighbours.push_back(std::move(with));
    }
    made.ids.assign(at, words.end());
    made.vector.assign(made.ids.begin(), made.ids.end());
    return made;
}

#endif
