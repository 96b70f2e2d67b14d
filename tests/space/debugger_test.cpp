// tests/space/debugger_test.cpp: the chain by which a debugger finds the tasks, walked as one does:
// from outside, by reading memory that may change or go meanwhile.
#include <dlfcn.h>
#include <link.h>
#include <sys/uio.h>

#include <atomic>
#include <random>

#include "member.hpp"

using namespace fixture;

using debugger = SpaceTest;

namespace
{

struct Sight {
    Words names;        // of the link maps, in order
    bool whole = false; // all that was there could be read, and is linked back and forth
    size_t namespaces = 0;
    bool has_end = false; // the chain leads to its end
};

template <typename Value> bool peek(const void *from, Value *to)
{
    iovec local = {to, sizeof(*to)}, remote = {const_cast<void *>(from), sizeof(*to)};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
           static_cast<ssize_t>(sizeof(*to));
}

bool peek_name(const char *from, std::string *name)
{
    for (char byte = 1; name->size() < PATH_MAX; *name += byte)
        if (!peek(from++, &byte))
            return false;
        else if (!byte)
            return true;
    return false;
}

const r_debug_extended *first_of_root()
{
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG)
            return reinterpret_cast<const r_debug_extended *>(entry->d_un.d_ptr);
    return nullptr;
}

bool look_at_maps(const link_map *at, Sight *sight)
{
    link_map map = {};
    for (const link_map *previous = nullptr; at; previous = at, at = map.l_next) {
        std::string name;
        if (!peek(at, &map) || map.l_prev != previous || !peek_name(map.l_name, &name))
            return false;
        sight->names.push_back(name);
    }
    return true;
}

Sight look()
{
    constexpr size_t Bound = 3 * LAYOUT_SLOTS;
    Sight sight;
    sight.whole = true;
    r_debug_extended entry = {};
    for (auto at = first_of_root(); at; at = entry.base.r_version >= 2 ? entry.r_next : nullptr) {
        if (!peek(at, &entry) || sight.namespaces++ > Bound)
            return sight;
        sight.whole &= look_at_maps(entry.base.r_map, &sight);
    }
    sight.has_end = true;
    return sight;
}

size_t count(const Sight &sight, const std::string &name)
{
    std::string path = std::filesystem::canonical(name);
    return static_cast<size_t>(
        std::count_if(sight.names.begin(), sight.names.end(), [&](const std::string &seen) {
            std::error_code torn; // what a torn look has read may be no name at all
            return seen == path || std::filesystem::equivalent(seen, path, torn);
        }));
}

size_t count(const std::string &name)
{
    Sight sight = look();
    EXPECT_TRUE(sight.whole && sight.has_end);
    return count(sight, name);
}

/* For tasks that move meanwhile: a look while one loads or executes another program may be torn (a
 * debugger stops it first), and is repeated. */
bool eventually_counts(const std::string &name, size_t wanted)
{
    return eventually([&] {
        Sight sight = look();
        return sight.whole && sight.has_end && count(sight, name) == wanted;
    });
}

} // namespace

TEST_F(debugger, sees_the_program_of_each_task)
{
    Member first, second;
    EXPECT_GT(first.tell("self").result, 0);
    EXPECT_GT(second.tell("self").result, 0);
    EXPECT_EQ(count(program("obey")), 2u);
}

TEST_F(debugger, sees_libraries_that_a_task_opens_later)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    EXPECT_EQ(count(program("extra.so")), 0u);
    ASSERT_EQ(task.tell("open", program("extra.so")).result, 0);
    EXPECT_EQ(count(program("extra.so")), 1u);
}

TEST_F(debugger, sees_libraries_that_the_root_opens_later)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *library = dlopen(program("extra.so").c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_EQ(count(program("extra.so")), 1u);
    dlclose(library);
    EXPECT_EQ(count(program("extra.so")), 0u);
}

TEST_F(debugger, does_not_see_ended_tasks)
{
    Member ends, dies;
    EXPECT_GT(ends.tell("self").result, 0);
    EXPECT_GT(dies.tell("self").result, 0);
    EXPECT_EQ(ends.finish().status, 0);
    EXPECT_EQ(count(program("obey")), 1u);
    dies.kill_and_wait();
    EXPECT_EQ(count(program("obey")), 0u);
}

TEST_F(debugger, does_not_see_tasks_that_executed_another_program)
{
    Task task({"/bin/sh", "-c", "read x; exec sleep 100"});
    EXPECT_TRUE(eventually_counts("/bin/sh", 1));
    task.write_line("go");
    EXPECT_TRUE(eventually_counts("/bin/sh", 0));
    task.kill_and_wait();
}

TEST_F(debugger, sees_the_next_task_of_a_slot)
{
    for (int i = 0; i < 5; i++) {
        Task task({"/bin/cat"});
        EXPECT_TRUE(eventually_counts("/bin/cat", 1));
        EXPECT_EQ(task.finish().status, 0);
        EXPECT_EQ(count("/bin/cat"), 0u);
    }
}

TEST_F(debugger, sees_static_programs)
{
    Task task({program("plain-static"), "wait"});
    EXPECT_TRUE(eventually_counts(program("plain-static"), 1));
}

TEST_F(debugger, sees_musl_programs)
{
    std::string guest = program("plain-musl");
    if (!std::filesystem::exists(guest))
        GTEST_SKIP() << "no musl-gcc (package musl-tools)";
    Task task({guest, "wait"});
    EXPECT_TRUE(eventually_counts(guest, 1));
}

TEST_F(debugger, sees_namespaces_that_the_root_makes_later)
{
    Member task;
    EXPECT_GT(task.tell("self").result, 0);
    void *library = dlmopen(LM_ID_NEWLM, program("extra.so").c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_EQ(count(program("extra.so")), 1u);
    Member later;
    EXPECT_GT(later.tell("self").result, 0);
    EXPECT_EQ(count(program("obey")), 2u);
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_EQ(later.finish().status, 0);
    EXPECT_EQ(count(program("extra.so")), 1u);
    ASSERT_EQ(onespace_fini(), 0);
    EXPECT_EQ(count(program("extra.so")), 1u) << "the space's entries are cut out, no others";
    ASSERT_EQ(onespace_init(), 0);
    Member again;
    EXPECT_GT(again.tell("self").result, 0);
    EXPECT_EQ(count(program("obey")), 1u);
    EXPECT_EQ(again.finish().status, 0);
    dlclose(library);
}

TEST_F(debugger, sees_nothing_of_an_ended_space)
{
    size_t before = look().namespaces;
    ASSERT_EQ(onespace_fini(), 0);
    Sight after = look();
    EXPECT_TRUE(after.whole && after.has_end);
    EXPECT_LT(after.namespaces, before);
    ASSERT_EQ(onespace_init(), 0);
    EXPECT_EQ(look().namespaces, 2 + after.namespaces) << "the two ends of the chain";
}

// Memory may go while the debugger reads it: it then reads less, but reaches the end.
TEST_F(debugger, finds_its_way_while_tasks_are_killed_at_any_instruction)
{
    std::atomic<bool> done = false;
    size_t lost = 0;
    std::atomic<size_t> seen = 0;
    std::thread looker([&] {
        while (!done) {
            Sight sight = look();
            lost += !sight.has_end;
            seen += count(sight, "/bin/cat");
        }
    });
    std::mt19937 random(1);
    for (int round = 0; round < 60; round++) {
        std::vector<std::unique_ptr<Task>> tasks;
        for (int i = 0; i < 4; i++)
            tasks.push_back(std::make_unique<Task>(Words{"/bin/cat"}));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        for (auto &task : tasks)
            EXPECT_EQ(onespace_kill(task->id(), SIGKILL), 0);
        for (auto &task : tasks)
            EXPECT_EQ(task->finish().status, SIGKILL);
    }
    if (seen == 0) { // all were killed before they had loaded
        Task last({"/bin/cat"});
        EXPECT_TRUE(eventually([&] { return seen > 0; }));
    }
    done = true;
    looker.join();
    EXPECT_EQ(lost, 0u);
    EXPECT_EQ(count("/bin/cat"), 0u);
}
