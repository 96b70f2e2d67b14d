// tests/sync/ghost_mesh.hpp: random lists for a ghost update, and a computation on them, with a
// serial version as the reference.
#ifndef ONESPACE_TESTS_SYNC_GHOST_MESH_HPP
#define ONESPACE_TESTS_SYNC_GHOST_MESH_HPP

#include <algorithm>
#include <numeric>
#include <onespace/sync/ghost_lists.hpp>
#include <random>

struct ghost_part { // of one rank
    std::vector<onespace::sync::ghost_neighbour> lists;
    std::vector<std::int64_t> ids; // of each of its points
    std::size_t own;               // number of own points, which come first; the rest are ghosts
};

// Random exchange lists: some pairs in one direction only, points sent to several ranks, some lists
// consecutive and some not, some ranks without neighbours. Deterministic for a given seed.
inline std::vector<ghost_part> random_parts(int ranks, unsigned seed)
{
    std::mt19937 random(seed);
    auto below = [&](std::size_t limit) { return random() % limit; };
    std::vector<ghost_part> parts(ranks);
    std::int64_t id = 0;
    for (auto &part : parts) {
        part.own = 1 + below(40);
        for (std::size_t i = 0; i < part.own; i++)
            part.ids.push_back(id++);
    }
    for (int writer = 0; writer < ranks; writer++)
        for (int reader = 0; reader < ranks; reader++) {
            if (writer == reader || below(3) == 0)
                continue;
            std::vector<int> send(parts[writer].own), receive;
            std::iota(send.begin(), send.end(), 0);
            if (below(2))
                std::shuffle(send.begin(), send.end(), random);
            send.resize(below(send.size() + 1)); // possibly none
            for (int point : send) {
                receive.push_back(static_cast<int>(parts[reader].ids.size()));
                parts[reader].ids.push_back(parts[writer].ids[point]);
            }
            auto of = [&](int rank, int with) -> auto &
            {
                auto &lists = parts[rank].lists;
                auto found = std::find_if(lists.begin(), lists.end(),
                                          [&](auto &list) { return list.rank == with; });
                if (found != lists.end())
                    return *found;
                lists.emplace_back().rank = with;
                return lists.back();
            };
            of(writer, reader).send = send;
            of(reader, writer).receive = receive;
        }
    return parts;
}

using ghost_vector = std::vector<std::uint64_t>;

inline ghost_vector first_values(const ghost_part &part, std::size_t values)
{
    ghost_vector vector(part.ids.size() * values);
    for (std::size_t i = 0; i < part.own * values; i++)
        vector[i] = part.ids[i / values] * 1000 + i % values;
    return vector;
}

// Changes each of the rank's own values by one of its ghosts, so that errors persist and spread.
inline void step(const ghost_part &part, std::size_t values, ghost_vector &vector)
{
    std::size_t own = part.own * values, ghosts = vector.size() - own;
    for (std::size_t i = 0; i < std::max(own, ghosts); i++)
        vector[i % own] = vector[i % own] * 6364136223846793005u +
                          (ghosts ? vector[own + i % ghosts] : 1442695040888963407u);
}

// All ranks' vectors after that many updates, each followed by a step; by ids, not by lists.
inline std::vector<ghost_vector> reference(const std::vector<ghost_part> &parts, std::size_t values,
                                           int updates)
{
    std::vector<ghost_vector> vectors;
    std::vector<std::pair<int, std::size_t>> owner; // of an id: rank and point
    for (const auto &part : parts) {
        for (std::size_t i = 0; i < part.own; i++)
            owner.emplace_back(static_cast<int>(vectors.size()), i);
        vectors.push_back(first_values(part, values));
    }
    for (int update = 0; update < updates; update++) {
        for (std::size_t rank = 0; rank < parts.size(); rank++)
            for (std::size_t i = parts[rank].own; i < parts[rank].ids.size(); i++) {
                auto [from, point] = owner[parts[rank].ids[i]];
                std::copy_n(&vectors[from][point * values], values, &vectors[rank][i * values]);
            }
        for (std::size_t rank = 0; rank < parts.size(); rank++)
            step(parts[rank], values, vectors[rank]);
    }
    return vectors;
}

#endif
