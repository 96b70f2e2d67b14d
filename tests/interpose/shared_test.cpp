// tests/interpose/shared_test.cpp: shared mappings of the same memory have one address in all tasks
// (docs/memory.md), and do nothing to the others when one is undone, changed, or killed.
#include <linux/magic.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/vfs.h>

#include <random>
#include <set>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

namespace
{

constexpr const char *Size = "65536";
constexpr int Files = 64;
constexpr unsigned long Huge = 2 << 20;
constexpr const char *Elsewhere = "6ff000000000"; // in no task's range

// A guest that obeys.
class User : public Task
{
  public:
    explicit User(unsigned flags = 0)
        : Task({program("shared")}, [flags](Attr &attr) { attr.flags |= flags; })
    {
    }
    std::string ask(const std::string &line)
    {
        write_line(line);
        return this->line();
    }
};

class shared_mappings : public SpaceTest
{
  protected:
    void SetUp() override
    {
        SpaceTest::SetUp();
        path = "/dev/shm/onespace-shared-test-" + std::to_string(getpid());
    }
    void TearDown() override
    {
        for (const std::string &file : {path, path + "-other"})
            unlink(file.c_str());
        for (int i = 0; i < Files; i++)
            unlink(file(i).c_str());
        // All users have gone, and so has every entry.
        EXPECT_TRUE(eventually([] { return probe_shared() == 0; }));
        SpaceTest::TearDown();
    }
    static bool is_shared(const std::string &address)
    {
        return probe_is_shared(std::stoull(address, nullptr, 16)) != 0;
    }
    std::string file(int number) const
    {
        return path + std::to_string(number);
    }
    // Another small file, mapped.
    std::string map_file(User &user, int number, const std::string &size = "12288")
    {
        EXPECT_EQ(user.ask("open " + file(number) + " rw 16777216"), "0");
        std::string address = user.ask("map " + size + " rw");
        EXPECT_TRUE(is_shared(address)) << address;
        return address;
    }
    std::string open(const std::string &how = "rw") const
    {
        return "open " + path + " " + how + " " + (how == "rw" ? "262144" : "");
    }
    // Two users that have mapped the file alike, and where.
    void map_in_both(User &first, User &other)
    {
        ASSERT_EQ(first.ask(open()), "0");
        ASSERT_EQ(other.ask(open()), "0");
        where = first.ask(map);
        ASSERT_TRUE(is_shared(where)) << where;
        ASSERT_EQ(other.ask(map), where);
    }

    std::string path, where;
    const std::string map = std::string("map ") + Size + " rw";
};

std::string at(const std::string &address, size_t more)
{
    char text[32];
    snprintf(text, sizeof(text), "%llx", std::stoull(address, nullptr, 16) + more);
    return text;
}

unsigned long value(const std::string &address)
{
    return std::stoul(address, nullptr, 16);
}

} // namespace

TEST_F(shared_mappings, of_the_same_memory_are_one)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(first.ask("put " + where + " 42"), "42");
    EXPECT_EQ(other.ask("get " + where), "42");
}

TEST_F(shared_mappings, that_differ_have_addresses_of_their_own)
{
    User first, other, alone(ONESPACE_SPAWN_OWN_MAPPINGS);
    map_in_both(first, other);
    std::set<std::string> seen = {where};
    for (const char *how : {"map 131072 rw", "map 65536 r", "map 65536 rw 4096"})
        EXPECT_TRUE(seen.insert(other.ask(how)).second) << how;
    EXPECT_EQ(alone.ask(open()), "0");
    std::string own = alone.ask(map);
    EXPECT_FALSE(is_shared(own)) << own;
    EXPECT_TRUE(seen.insert(own).second);
    EXPECT_EQ(alone.ask("put " + own + " 9"), "9");
    EXPECT_EQ(first.ask("get " + where), "9");
}

TEST_F(shared_mappings, of_one_task_have_two_addresses)
{
    User first, other;
    map_in_both(first, other);
    std::string second = first.ask(map), third = first.ask(map);
    EXPECT_NE(second, where);
    EXPECT_NE(third, where);
    EXPECT_NE(third, second);
    EXPECT_EQ(other.ask(map), second);
    EXPECT_EQ(first.ask("put " + third + " 5"), "5");
    EXPECT_EQ(other.ask("get " + second), "5");
    EXPECT_EQ(first.ask("unmap " + where + " " + Size), "0");
    EXPECT_EQ(first.ask("get " + second), "5");
    EXPECT_EQ(other.ask("get " + where), "5");
}

TEST_F(shared_mappings, of_files_on_disk_are_not_shared)
{
    char disk[] = "/var/tmp/onespace-shared-XXXXXX";
    Descriptor made(mkstemp(disk));
    ASSERT_GE(made.get(), 0);
    struct statfs system = {};
    ASSERT_EQ(fstatfs(made.get(), &system), 0);
    if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
        unlink(disk);
        GTEST_SKIP() << "/var/tmp is memory";
    }
    User first, other;
    EXPECT_EQ(first.ask(std::string("open ") + disk + " rw 65536"), "0");
    EXPECT_EQ(other.ask(std::string("open ") + disk + " rw 65536"), "0");
    EXPECT_FALSE(is_shared(first.ask(map)));
    EXPECT_FALSE(is_shared(other.ask(map)));
    unlink(disk);
}

TEST_F(shared_mappings, need_the_access_that_the_descriptor_gives)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(other.ask(open("r")), "0");
    EXPECT_EQ(other.ask(map), "EACCES");
    std::string readable = other.ask("map 65536 r");
    EXPECT_EQ(other.ask("protect " + readable + " 65536 rw"), "EACCES");
    EXPECT_EQ(first.ask("memory 65536 sealed"), "0");
    EXPECT_EQ(first.ask(map), "EPERM");
}

TEST_F(shared_mappings, outlive_the_task_that_made_them)
{
    auto first = std::make_unique<User>();
    User other;
    map_in_both(*first, other);
    EXPECT_EQ(first->ask("put " + where + " 3"), "3");
    first->kill_and_wait();
    EXPECT_EQ(other.ask("get " + where), "3");
    User third;
    EXPECT_EQ(third.ask(open()), "0");
    EXPECT_EQ(third.ask(map), where);
}

TEST_F(shared_mappings, end_with_their_last_user)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(first.ask("unmap " + where + " " + Size), "0");
    EXPECT_EQ(other.ask("put " + where + " 8"), "8");
    EXPECT_EQ(first.ask("unmap " + where + " " + Size), "0"); // as where nothing is mapped
    EXPECT_EQ(other.ask("get " + where), "8");
    EXPECT_EQ(other.ask("unmap " + where + " " + Size), "0");
    EXPECT_EQ(other.ask("is-mapped " + where), "0");
    EXPECT_EQ(probe_shared(), 0);
    std::string again = first.ask(map);
    EXPECT_EQ(first.ask("get " + again), "8");
}

TEST_F(shared_mappings, can_be_unmapped_in_part_by_who_is_alone)
{
    User first, other;
    EXPECT_EQ(first.ask(open()), "0");
    where = first.ask(map);
    EXPECT_EQ(first.ask("unmap " + at(where, 8192) + " 4096"), "0");
    EXPECT_EQ(first.ask("is-mapped " + at(where, 8192)), "0");
    EXPECT_EQ(first.ask("is-mapped " + at(where, 12288)), "1");
    EXPECT_EQ(other.ask(open()), "0");
    EXPECT_NE(other.ask(map), where); // a changed mapping is not joined
    EXPECT_EQ(first.ask("unmap " + where + " " + Size), "0");
    EXPECT_EQ(first.ask("is-mapped " + where), "0");
}

TEST_F(shared_mappings, stay_whole_for_the_others_when_one_unmaps_a_part)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(first.ask("unmap " + where + " 4096"), "0");
    EXPECT_EQ(other.ask("put " + where + " 4"), "4");
}

// A mapping that a task has changed is its own: it differs from the one that others find.
TEST_F(shared_mappings, that_grew_keep_what_was_not_unmapped)
{
    User first;
    where = map_file(first, 0, "8192");
    std::string grown = at(where, 8192);
    EXPECT_EQ(first.ask("remap " + where + " 8192 12288 0"), where);
    EXPECT_EQ(first.ask("put " + grown + " 5"), "5");
    EXPECT_EQ(first.ask("unmap " + where + " 8192"), "0");
    ASSERT_EQ(first.ask("is-mapped " + grown), "1");
    EXPECT_EQ(first.ask("get " + grown), "5");
    EXPECT_EQ(first.ask("unmap " + grown + " 4096"), "0");
    EXPECT_EQ(probe_shared(), 0);
}

TEST_F(shared_mappings, end_with_their_last_part)
{
    User first;
    where = map_file(first, 0);
    for (size_t offset : {0, 8192, 4096}) {
        EXPECT_NE(probe_shared(), 0);
        EXPECT_EQ(first.ask("unmap " + at(where, offset) + " 4096"), "0");
    }
    EXPECT_EQ(probe_shared(), 0);
    where = map_file(first, 0);
    EXPECT_EQ(first.ask("remap " + where + " 12288 4096 0"), where);
    EXPECT_EQ(first.ask("unmap " + where + " 4096"), "0");
    EXPECT_EQ(probe_shared(), 0);
    where = map_file(first, 0);
    EXPECT_FALSE(is_shared(first.ask("remap " + at(where, 4096) + " 8192 8192 3 " + Elsewhere)));
    EXPECT_EQ(first.ask("unmap " + where + " 4096"), "0");
    EXPECT_EQ(probe_shared(), 0);
}

TEST_F(shared_mappings, that_are_detached_leave_what_was_mapped_over_them)
{
    int id = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0600);
    if (id < 0)
        GTEST_SKIP() << "shmget: " << strerror(errno);
    User first;
    where = first.ask("attach " + std::to_string(id) + " rw");
    EXPECT_EQ(shmctl(id, IPC_RMID, nullptr), 0);
    std::string over = at(where, 4096);
    EXPECT_EQ(first.ask("over " + over + " 4096 fixed"), over);
    EXPECT_EQ(first.ask("detach " + where), "0");
    EXPECT_EQ(first.ask("is-mapped " + where), "0");
    EXPECT_EQ(first.ask("is-mapped " + over), "1");
    EXPECT_EQ(first.ask("unmap " + over + " 4096"), "0");
    EXPECT_EQ(probe_shared(), 0);
}

TEST_F(shared_mappings, that_move_out_of_the_range_end_with_the_task)
{
    User first, other;
    map_in_both(first, other);
    ASSERT_EQ(first.ask(std::string("remap ") + where + " 65536 65536 3 " + Elsewhere), Elsewhere);
    EXPECT_EQ(other.ask(std::string("is-mapped ") + Elsewhere), "1");
    first.kill_and_wait();
    EXPECT_TRUE(
        eventually([&] { return other.ask(std::string("is-mapped ") + Elsewhere) == "0"; }));
}

TEST_F(shared_mappings, are_protected_by_who_is_alone)
{
    User first, other;
    EXPECT_EQ(first.ask(open()), "0");
    where = first.ask(map);
    EXPECT_EQ(first.ask("protect " + where + " 4096 r"), "0");
    EXPECT_EQ(other.ask(open()), "0");
    std::string elsewhere = other.ask(map);
    EXPECT_NE(elsewhere, where);
    EXPECT_EQ(first.ask(map), elsewhere);
    EXPECT_EQ(other.ask("protect " + elsewhere + " 4096 none"), "ENOMEM");
    EXPECT_EQ(other.ask("protect " + elsewhere + " 65536 rw"), "0"); // as it is
    EXPECT_EQ(first.ask("put " + elsewhere + " 6"), "6");
}

TEST_F(shared_mappings, are_not_mapped_over_where_others_use_them)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(first.ask("over " + where + " 4096 fixed"), "ENOMEM");
    EXPECT_EQ(first.ask("over " + where + " 4096 noreplace"), "ENOMEM");
    EXPECT_EQ(first.ask("put " + where + " 1"), "1");
    EXPECT_EQ(other.ask("unmap " + where + " " + Size), "0");
    EXPECT_EQ(first.ask("over " + where + " 4096 noreplace"), "EEXIST");
    EXPECT_EQ(first.ask("over " + where + " 4096 fixed"), where);
    EXPECT_EQ(first.ask("get " + where), "0");
}

// As programs that search for addresses by a mapping, and map there when they know more.
TEST_F(shared_mappings, leave_their_addresses_to_who_has_unmapped_them)
{
    User first, other;
    EXPECT_EQ(first.ask(open()), "0");
    EXPECT_EQ(other.ask(open()), "0");
    where = first.ask(map);
    EXPECT_EQ(first.ask("unmap " + where + " " + Size), "0");
    EXPECT_EQ(first.ask("over " + where + " 0x10000000 fixed"), "ENOMEM"); // beyond the window
    EXPECT_EQ(first.ask("over " + where + " 4096 fixed"), where);
    EXPECT_EQ(first.ask("put " + where + " 3"), "3");
    EXPECT_EQ(other.ask("over " + where + " 4096 fixed"), "ENOMEM");
    std::string elsewhere = other.ask(map);
    EXPECT_NE(elsewhere, where);
    EXPECT_EQ(other.ask("unmap " + elsewhere + " " + Size), "0");
    EXPECT_EQ(first.ask("unmap " + where + " 4096"), "0");
    EXPECT_EQ(probe_shared(), 0);
    EXPECT_EQ(other.ask("over " + where + " 8192 noreplace"), where);
    other.kill_and_wait();
    EXPECT_TRUE(eventually([&] { return first.ask("is-mapped " + where) == "0"; }));
}

TEST_F(shared_mappings, that_move_leave_the_others_where_they_are)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(first.ask("put " + where + " 77"), "77");
    EXPECT_EQ(first.ask("remap " + where + " 65536 131072 0"), "ENOMEM");
    std::string moved = first.ask("remap " + where + " 65536 131072 1");
    ASSERT_FALSE(is_shared(moved)) << moved;
    EXPECT_EQ(layout_slot_of(std::stoull(moved, nullptr, 16)),
              static_cast<unsigned>(first.id()) % LAYOUT_SLOTS);
    EXPECT_EQ(other.ask("get " + where), "77");
    EXPECT_EQ(first.ask("put " + at(moved, 5) + " 78"), "78");
    EXPECT_EQ(other.ask("get " + at(where, 5)), "78");
    std::string twice = other.ask("remap " + where + " 0 65536 1");
    EXPECT_EQ(other.ask("get " + twice), "77");
    EXPECT_EQ(other.ask("get " + where), "77");
    EXPECT_EQ(other.ask("remap " + where + " 65536 131072 0"), "ENOMEM"); // no room behind it
    EXPECT_EQ(other.ask("remap " + where + " 65536 69632 0"), where);     // alone now
    EXPECT_EQ(other.ask("put " + at(where, 69631) + " 1"), "1");
    EXPECT_EQ(other.ask("remap " + where + " 69632 4096 1"), where);
    EXPECT_EQ(other.ask("is-mapped " + at(where, 8192)), "0");
}

TEST_F(shared_mappings, of_a_forked_child_are_its_own)
{
    User first, other;
    map_in_both(first, other);
    EXPECT_EQ(first.ask("fork-unmap " + where + " " + Size), "7");
    EXPECT_EQ(first.ask("put " + where + " 2"), "2");
    EXPECT_EQ(other.ask("get " + where), "2");
}

TEST_F(shared_mappings, of_system_v_segments_are_counted)
{
    int id = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0600);
    if (id < 0)
        GTEST_SKIP() << "shmget: " << strerror(errno);
    std::string word = std::to_string(id);
    {
        User first, other, third;
        where = first.ask("attach " + word + " rw");
        EXPECT_TRUE(is_shared(where));
        EXPECT_EQ(other.ask("attach " + word + " rw"), where);
        EXPECT_NE(third.ask("attach " + word + " r"), where);
        EXPECT_EQ(first.ask("attached " + word), "3");
        EXPECT_EQ(shmctl(id, IPC_RMID, nullptr), 0);
        EXPECT_EQ(first.ask("put " + where + " 12"), "12");
        EXPECT_EQ(first.ask("detach " + at(where, 4096)), "EINVAL");
        EXPECT_EQ(first.ask("detach " + where), "0");
        EXPECT_EQ(first.ask("detach " + where), "EINVAL");
        EXPECT_EQ(other.ask("get " + where), "12");
        EXPECT_EQ(other.ask("attached " + word), "2");
    }
    shmid_ds segment;
    EXPECT_TRUE(eventually([&] { return shmctl(id, IPC_STAT, &segment) != 0; })) << "it is left";
}

// As UCX does when it is loaded, to see whether it notices.
TEST_F(shared_mappings, that_were_attached_over_leave_later_ones_alone)
{
    int id = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0600);
    if (id < 0)
        GTEST_SKIP() << "shmget: " << strerror(errno);
    auto user = std::make_unique<User>();
    User other;
    std::string word = std::to_string(id), first = user->ask("attach " + word + " rw");
    EXPECT_EQ(user->ask("reattach " + word + " " + first), first);
    EXPECT_EQ(user->ask("detach " + first), "0");
    EXPECT_EQ(other.ask(open()), "0");
    EXPECT_EQ(other.ask(map), first); // its place is free again
    EXPECT_EQ(user->ask("reattach " + word + " " + first), "ENOMEM");
    EXPECT_EQ(user->ask("remap " + other.ask(map) + " 65536 65536 3 " + first), "ENOMEM");
    user->kill_and_wait();
    EXPECT_EQ(other.ask("put " + first + " 1"), "1");
    shmctl(id, IPC_RMID, nullptr);
}

TEST_F(shared_mappings, that_are_small_share_page_tables)
{
    User first;
    std::set<unsigned long> starts, tables;
    for (int i = 0; i < Files; i++) {
        starts.insert(value(map_file(first, i)));
        tables.insert(*starts.rbegin() / Huge);
    }
    EXPECT_EQ(starts.size(), static_cast<size_t>(Files));
    EXPECT_LE(tables.size(), 2u);
    std::string last = map_file(first, 0, "16384");
    EXPECT_EQ(first.ask("is-mapped " + at(last, 16384)), "0"); // a page between it and the next
}

TEST_F(shared_mappings, that_are_large_begin_where_huge_pages_may)
{
    User first;
    std::set<unsigned long> starts;
    for (const char *size : {"2097152", "4194304", "4296704", "8388608"})
        for (int i = 0; i < 3; i++) {
            unsigned long start = value(map_file(first, i, size));
            EXPECT_EQ(start % Huge, 0u) << size;
            EXPECT_TRUE(starts.insert(start).second) << size;
        }
}

TEST_F(shared_mappings, are_unmapped_together_without_those_of_others_between)
{
    User user, other;
    std::string first = map_file(user, 0), second = map_file(other, 1), third = map_file(user, 2);
    ASSERT_EQ(map_file(other, 2), third);
    ASSERT_LT(value(first), value(second));
    ASSERT_LT(value(second), value(third));
    EXPECT_EQ(other.ask("put " + second + " 21"), "21");
    EXPECT_EQ(other.ask("put " + third + " 22"), "22");
    std::string size = std::to_string(value(third) + 12288 - value(first));
    EXPECT_EQ(user.ask("unmap " + first + " " + size), "0");
    EXPECT_EQ(other.ask("is-mapped " + first), "0");
    EXPECT_EQ(other.ask("get " + second), "21");
    EXPECT_EQ(other.ask("get " + third), "22");
    EXPECT_EQ(other.ask("unmap " + third + " 12288"), "0"); // no other task uses it any more
    EXPECT_EQ(other.ask("is-mapped " + third), "0");
}

TEST_F(shared_mappings, are_not_changed_by_who_owns_what_lies_before_them)
{
    User user, other;
    std::string first = map_file(user, 0, "16384"), second = map_file(other, 1, "16384");
    ASSERT_LT(value(first), value(second));
    std::string both = std::to_string(value(second) + 16384 - value(first));
    EXPECT_EQ(other.ask("put " + second + " 31"), "31");
    EXPECT_EQ(user.ask("protect " + first + " " + both + " none"), "ENOMEM");
    EXPECT_EQ(user.ask("over " + first + " " + both + " fixed"), "ENOMEM");
    EXPECT_EQ(user.ask("remap " + first + " 16384 " + both + " 0"), "ENOMEM");
    EXPECT_EQ(user.ask("unmap " + at(first, 4096) + " " + both), "0"); // of its own a part
    EXPECT_EQ(user.ask("is-mapped " + first), "1");
    EXPECT_EQ(user.ask("is-mapped " + at(first, 4096)), "0");
    EXPECT_EQ(other.ask("get " + second), "31");
    EXPECT_EQ(other.ask("put " + at(second, 16383) + " 32"), "32");
    user.kill_and_wait();
    EXPECT_EQ(other.ask("get " + second), "31");
}

// Tasks map, unmap, move and change the same few files and are killed at any moment: contents stay
// right, nothing faults, and in the end nothing is left (TearDown).
TEST_F(shared_mappings, survive_tasks_that_die_while_they_change_them)
{
    const int files = 8, users = 6, rounds = want_long() ? 2000 : 60;
    for (int i = 0; i < files; i++) {
        Descriptor made(::open(file(i).c_str(), O_RDWR | O_CREAT, 0600));
        std::string bytes(32 * 4096, static_cast<char>(i));
        ASSERT_EQ(write(made.get(), bytes.data(), bytes.size()), 32 * 4096);
    }
    std::minstd_rand random(std::random_device{}());
    std::vector<std::unique_ptr<User>> live;
    for (int round = 0; round < rounds; round++) {
        live.push_back(std::make_unique<User>());
        live.back()->write_line("churn " + path + " " + std::to_string(files) + " " +
                                std::to_string(random()));
        ASSERT_EQ(live.back()->line(), "churns");
        if (live.size() < users)
            continue;
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        auto victim = live.begin() + static_cast<long>(random() % live.size());
        (*victim)->kill();
        Outcome end = (*victim)->finish();
        ASSERT_EQ(end, (Outcome{"", SIGKILL}));
        live.erase(victim);
    }
    for (auto &user : live)
        user->kill();
    for (auto &user : live)
        EXPECT_EQ(user->finish(), (Outcome{"", SIGKILL}));
}
