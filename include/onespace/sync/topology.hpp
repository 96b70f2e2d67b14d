// onespace/sync/topology.hpp: where ranks run, and a tree over them that follows the topology.
//
// With ONESPACE_SYNC_HWLOC defined (and -lhwloc) a rank finds its package, NUMA node and L3 cache
// from its CPU binding. Without it, or unbound, its place is unknown and the tree follows the order
// of ranks.
#ifndef ONESPACE_SYNC_TOPOLOGY_HPP
#define ONESPACE_SYNC_TOPOLOGY_HPP

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#ifdef ONESPACE_SYNC_HWLOC
#include <hwloc.h>
#endif

namespace onespace::sync
{

// Logical indices on this machine; -1: unknown, or the rank may run in several.
struct place {
    std::int32_t package = -1, numa = -1, l3 = -1;
};

struct tree {
    int parent = -1;           // -1: the root
    std::vector<int> children; // distant ones and large subtrees first
};

#ifdef ONESPACE_SYNC_HWLOC
namespace detail
{
inline std::int32_t index_around(hwloc_topology_t machine, hwloc_const_cpuset_t cpus,
                                 hwloc_obj_type_t type)
{
    int count = hwloc_get_nbobjs_by_type(machine, type);
    for (int i = 0; i < count; i++)
        if (hwloc_bitmap_isincluded(cpus, hwloc_get_obj_by_type(machine, type, i)->cpuset))
            return i;
    return -1;
}
} // namespace detail

// Determines the caller's place. Takes milliseconds.
inline place find_place()
{
    place result;
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine) != 0)
        return result;
    hwloc_cpuset_t cpus = hwloc_bitmap_alloc();
    if (cpus && hwloc_topology_load(machine) == 0 &&
        hwloc_get_cpubind(machine, cpus, HWLOC_CPUBIND_THREAD) == 0) {
        result.package = detail::index_around(machine, cpus, HWLOC_OBJ_PACKAGE);
        result.numa = detail::index_around(machine, cpus, HWLOC_OBJ_NUMANODE);
        result.l3 = detail::index_around(machine, cpus, HWLOC_OBJ_L3CACHE);
    }
    hwloc_bitmap_free(cpus);
    hwloc_topology_destroy(machine);
    return result;
}
#else
inline place find_place()
{
    return {};
}
#endif

namespace detail
{

// The binomial tree of the paper's figure 3a over `members`, rooted at the first: the parent of
// position p is p without its highest bit, so that all are reached in ceil(log2 n) steps.
inline void link_binomial(std::span<const int> members, int rank, tree &links)
{
    std::size_t count = members.size(), at = 0;
    while (at < count && members[at] != rank)
        at++;
    if (at == count)
        return;
    std::size_t bit = 1;
    while (bit <= at)
        bit <<= 1;
    if (at > 0)
        links.parent = members[at - (bit >> 1)];
    for (; at + bit < count; bit <<= 1)
        links.children.push_back(members[at + bit]);
}

// Ranks that share a package, NUMA node or L3 form a group. The groups' first members form a tree,
// with the rest of each group below its first member.
inline void link_groups(std::span<const int> members, std::span<const place> places, int level,
                        int rank, tree &links)
{
    constexpr std::int32_t place::*keys[] = {&place::package, &place::numa, &place::l3};
    if (level == 3)
        return link_binomial(members, rank, links);
    std::vector<std::vector<int>> groups;
    for (int member : members) {
        auto same = [&](const std::vector<int> &group) {
            return places[group[0]].*keys[level] == places[member].*keys[level];
        };
        auto group = std::find_if(groups.begin(), groups.end(), same);
        if (group == groups.end())
            groups.push_back({member});
        else
            group->push_back(member);
    }
    std::vector<int> heads;
    for (const auto &group : groups)
        heads.push_back(group[0]);
    link_binomial(heads, rank, links);
    for (const auto &group : groups)
        if (std::find(group.begin(), group.end(), rank) != group.end())
            link_groups(group, places, level + 1, rank, links);
}

} // namespace detail

// The position of `rank` in a tree over all ranks, rooted at `root`. Deterministic: callers with
// the same arguments get the same result.
inline tree tree_of(std::span<const place> places, int rank, int root = 0)
{
    std::vector<int> members{root};
    for (int i = 0; i < static_cast<int>(places.size()); i++)
        if (i != root)
            members.push_back(i);
    tree links;
    detail::link_groups(members, places, 0, rank, links);
    return links;
}

} // namespace onespace::sync

#endif
