// tests/xpmem/many_test.cpp: many segments and permits, many threads, many times.
#include <atomic>
#include <unordered_set>

#include "user.hpp"

using namespace fixture;

using xpmem_many = SpaceTest;

TEST_F(xpmem_many, segments_are_all_found)
{
    constexpr size_t Count = 10000;
    char *base = reinterpret_cast<char *>(0x10000000000);
    std::unordered_set<long long> ids;
    std::vector<long long> segments, permits;
    for (size_t i = 0; i < Count; i++) {
        segments.push_back(make(base + i * Page, Page).result);
        permits.push_back(get(segments[i]).result);
        ids.insert(segments[i]);
    }
    EXPECT_EQ(ids.size(), Count);
    for (size_t i = 0; i < Count; i++)
        ASSERT_EQ(attach(permits[i], 0, Page).address(), base + i * Page);
    for (size_t i = 0; i < Count; i++)
        ASSERT_EQ(remove_segment(segments[i]), gives(0));
    for (size_t i = 0; i < Count; i++)
        ASSERT_EQ(attach(permits[i], 0, Page), fails(ENOENT));
    for (size_t i = 0; i < Count; i++)
        ASSERT_EQ(release(permits[i]), gives(0));
    EXPECT_EQ(probe_holds(), 0);
}

TEST_F(xpmem_many, segments_of_one_process_end_at_65536)
{
    User user;
    EXPECT_EQ(user.tell("make-many", 70000, 0x10000000000), gives(65536));
    EXPECT_EQ(user.tell("make", 0, Page, "0600"), fails(ENOMEM));
    EXPECT_EQ(user.finish().status, 0);
    User next; // the slot's tables are empty again
    next.share(1, 0);
    EXPECT_GT(get(next.segid).result, 0);
}

TEST_F(xpmem_many, uses_of_one_entry_give_no_id_twice)
{
    std::unordered_set<long long> ids;
    constexpr size_t Uses = 70000; // more than an entry is used
    for (size_t i = 0; i < Uses; i++) {
        Reply segid = make(nullptr, Page);
        ASSERT_GT(segid.result, 0);
        ids.insert(segid.result);
        ASSERT_EQ(remove_segment(segid.result), gives(0));
    }
    EXPECT_EQ(ids.size(), Uses);
}

TEST_F(xpmem_many, threads_do_not_get_each_others_entries)
{
    constexpr int Threads = 4, Rounds = 20000;
    std::atomic<int> wrong = 0;
    auto work = [&](uintptr_t number) {
        char *own = reinterpret_cast<char *>(0x10000000000 * (number + 1));
        for (int i = 0; i < Rounds; i++) {
            xpmem_segid_t segid = xpmem_make(own, Page, XPMEM_PERMIT_MODE, (void *)0600);
            xpmem_apid_t apid = xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, nullptr);
            wrong += xpmem_attach({apid, 0}, Page, nullptr) != own;
            wrong += xpmem_release(apid) != 0;
            wrong += xpmem_remove(segid) != 0;
        }
    };
    std::vector<std::thread> threads;
    for (uintptr_t i = 0; i < Threads; i++)
        threads.emplace_back(work, i);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(probe_holds(), 0);
}

TEST_F(xpmem_many, threads_that_remove_one_segment_succeed_once)
{
    for (int round = 0; round < 300; round++) {
        xpmem_segid_t segid = make(nullptr, Page).result;
        std::atomic<int> removed = 0, ready = 0;
        auto work = [&] {
            for (ready++; ready < 2;)
                std::this_thread::yield();
            removed += xpmem_remove(segid) == 0;
        };
        std::thread first(work), second(work);
        first.join();
        second.join();
        ASSERT_EQ(removed, 1);
    }
}
