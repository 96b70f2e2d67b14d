// tests/sync/topology_test.cpp: the tree that barriers and broadcasts follow.
#include <gtest/gtest.h>
#include <onespace/sync/topology.hpp>

namespace os = onespace::sync;
using places = std::vector<os::place>;

static std::vector<os::tree> all_of(const places &where, int root = 0)
{
    std::vector<os::tree> trees;
    for (int rank = 0; rank < static_cast<int>(where.size()); rank++)
        trees.push_back(os::tree_of(where, rank, root));
    return trees;
}

// Parents and children agree, and every rank is reached from the root once.
static void expect_tree(const std::vector<os::tree> &trees, int root)
{
    std::vector<int> reached{root};
    for (std::size_t i = 0; i < reached.size() && i < trees.size(); i++)
        for (int child : trees[reached[i]].children) {
            EXPECT_EQ(trees[child].parent, reached[i]);
            reached.push_back(child);
        }
    EXPECT_EQ(trees[root].parent, -1);
    std::sort(reached.begin(), reached.end());
    ASSERT_EQ(reached.size(), trees.size());
    for (std::size_t i = 0; i < reached.size(); i++)
        EXPECT_EQ(reached[i], static_cast<int>(i));
}

static int depth(const std::vector<os::tree> &trees, int rank)
{
    return trees[rank].parent < 0 ? 0 : 1 + depth(trees, trees[rank].parent);
}

TEST(tree, reaches_every_rank_once_from_every_root)
{
    for (int size = 1; size <= 20; size++)
        for (int root = 0; root < size; root++)
            expect_tree(all_of(places(size), root), root);
}

TEST(tree, of_unknown_places_is_the_papers)
{
    // Figure 3a, 12 ranks: 0 releases 1, 2, 4, 8; 1 releases 3, 5, 9; and so on.
    auto trees = all_of(places(12));
    EXPECT_EQ(trees[0].children, (std::vector<int>{1, 2, 4, 8}));
    EXPECT_EQ(trees[1].children, (std::vector<int>{3, 5, 9}));
    EXPECT_EQ(trees[2].children, (std::vector<int>{6, 10}));
    EXPECT_EQ(trees[3].children, (std::vector<int>{7, 11}));
    EXPECT_EQ(trees[11].parent, 3);
}

TEST(tree, crosses_between_packages_once_each_whatever_the_order_of_ranks)
{
    for (int shift : {1, 5, 7}) { // which ranks share a group
        places where(24);
        for (int i = 0; i < 24; i++)
            where[i].package = i * shift % 24 / 6;
        auto trees = all_of(where);
        expect_tree(trees, 0);
        int crossings = 0;
        for (int i = 0; i < 24; i++)
            crossings += i != 0 && where[trees[i].parent].package != where[i].package;
        EXPECT_EQ(crossings, 3);
    }
}

TEST(tree, stays_within_a_cache_below_each_caches_first_rank)
{
    places where(32);
    for (int i = 0; i < 32; i++)
        where[i] = {i % 2, i % 2, i % 2 * 4 + i / 2 % 4}; // 2 packages, 4 caches each, 4 ranks each
    auto trees = all_of(where, 3);
    expect_tree(trees, 3);
    int packages = 0, caches = 0;
    for (int i = 0; i < 32; i++)
        if (int parent = trees[i].parent; parent >= 0) {
            packages += where[parent].package != where[i].package;
            caches += where[parent].l3 != where[i].l3;
        }
    EXPECT_EQ(packages, 1);
    EXPECT_EQ(caches, 7);
}

TEST(tree, is_as_deep_as_its_levels_need)
{
    auto trees = all_of(places(64));
    for (int i = 0; i < 64; i++)
        EXPECT_LE(depth(trees, i), 6);
}

TEST(tree, tells_a_parent_of_its_far_children_first)
{
    places where(8);
    for (int i = 0; i < 8; i++)
        where[i].package = i / 4;
    auto tree = os::tree_of(where, 0);
    EXPECT_EQ(tree.children, (std::vector<int>{4, 1, 2}));
}

TEST(place, is_found_or_unknown)
{
    auto place = os::find_place();
    EXPECT_GE(place.package, -1);
    EXPECT_GE(place.l3, -1);
}
