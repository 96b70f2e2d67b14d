// tests/endurance/mixed_test.cpp: one root for a long time: programs of all kinds, many of which
// are killed at a random moment, and nothing grows. ONESPACE_MINUTES ends it before all are done.
#include <algorithm>
#include <random>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

using endurance = SpaceTest;

namespace
{

struct Kind {
    Words words;
    unsigned share; // of all spawns
    unsigned flags = 0;
    bool is_spared = false;
};

// A task that is killed between a mapping outside its range and the entry for it leaves it behind
// (docs/memory.md): its owner is not recorded yet.
constexpr bool Spared = true;

// What is not built, or not installed, is left out.
std::vector<Kind> kinds()
{
    std::vector<Kind> all = {
        {{"true"}, 30},
        {{"sh", "-c", "exit 3"}, 8},
        {{"sh", "-c", "exec true"}, 8},                     // leaves the space
        {{"sh", "-c", "kill -SEGV $$"}, 8},                 // dies by itself
        {{"sh", "-c", "true | cat"}, 4},                    // forks
        {{program("member"), "spawn", "true"}, 8},          // has a task as a child
        {{program("member"), "spawn-for-ever", "true"}, 8}, // orphans, when it is killed
        {{program("member"), "export-for-ever"}, 6},
        {{program("member"), "export-and-end"}, 6, ONESPACE_SPAWN_HOLD},
        {{program("chaos"), "4711"}, 8},
        {{program("memory"), "allocate", "4", "3"}, 4}, // threads and their heaps
        {{program("memory"), "churn", "60000"}, 4},
        {{program("memory"), "outside"}, 4, 0, Spared},
        {{program("mappings"), "left", "6800000000"}, 3, 0, Spared},
        {{program("children"), "fork"}, 3},
        {{program("plain-static"), "threads"}, 3},
        {{program("plain-musl"), "malloc"}, 3},
        {{"/usr/bin/python3", "-c", "pass"}, 1},
    };
    std::erase_if(all, [](const Kind &kind) {
        return kind.words[0][0] == '/' && access(kind.words[0].c_str(), X_OK) != 0;
    });
    return all;
}

long page_tables_kib()
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmPTE:"))
            return std::stol(line.substr(6));
    return -1;
}

// The figures that must not grow, while there is no task.
struct Level {
    Footprint footprint = Footprint::now();
    long page_tables = page_tables_kib();
    int slots = probe_slots(), holds = probe_holds(), exports = probe_exports(),
        shared = probe_shared();

    // Page tables go when what they were for is unmapped, but for some of the upper levels.
    bool is_above(const Level &before) const
    {
        return slots || holds || exports || shared || footprint.task_mappings ||
               footprint.mappings.size() > before.footprint.mappings.size() + 8 ||
               footprint.descriptors > before.footprint.descriptors ||
               footprint.resident_kib > before.footprint.resident_kib + 4096 ||
               page_tables > before.page_tables + 1024;
    }
    friend std::ostream &operator<<(std::ostream &stream, const Level &level)
    {
        return stream << level.footprint.mappings.size() << " mappings ("
                      << level.footprint.task_mappings << " of tasks), "
                      << level.footprint.descriptors << " descriptors, "
                      << level.footprint.resident_kib << " KiB resident, " << level.page_tables
                      << " KiB of page tables, " << level.slots << " slots, " << level.holds
                      << " holds, " << level.exports << " names, " << level.shared
                      << " shared mappings";
    }
};

// Some tasks at a time; each start of a task ends the oldest.
class Mixture
{
  public:
    explicit Mixture(unsigned seed) : random_(seed), kinds_(kinds())
    {
        for (const Kind &kind : kinds_)
            shares_ += kind.share;
    }
    // One of each kind, so that what is only ever made once is there.
    void warm_up()
    {
        for (int i = 0; i < 4; i++)
            for (const Kind &kind : kinds_)
                start(kind);
        drain();
    }
    void spawn()
    {
        unsigned at = random_() % shares_, i = 0;
        while (at >= kinds_[i].share)
            at -= kinds_[i++].share;
        start(kinds_[i]);
        if (tasks_.size() >= At_once)
            end_oldest();
    }
    void drain()
    {
        while (!tasks_.empty())
            end_oldest();
    }

  private:
    static constexpr size_t At_once = 6;

    struct Running {
        std::unique_ptr<Task> task;
        bool is_held, is_spared;
    };
    void start(const Kind &kind)
    {
        auto task =
            std::make_unique<Task>(kind.words, [&](Attr &attr) { attr.flags = kind.flags; });
        bool is_held = (kind.flags & ONESPACE_SPAWN_HOLD) != 0;
        tasks_.push_back({std::move(task), is_held, kind.is_spared});
    }
    // Most have to be killed, those too that would end by themselves.
    void end_oldest()
    {
        static const int signals[] = {SIGKILL, SIGKILL, SIGSEGV, SIGTERM};
        Running oldest = std::move(tasks_.front());
        tasks_.erase(tasks_.begin());
        if (random_() % 4 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
        // It may have ended by itself, or ignore the first.
        for (int signal : {signals[random_() % 4], SIGKILL}) {
            if (oldest.is_spared)
                break;
            int result = onespace_kill(oldest.task->id(), signal);
            EXPECT_TRUE(result == 0 || result == -ESRCH) << result;
        }
        EXPECT_GE(oldest.task->wait(), 0);
        int released = oldest.is_held ? onespace_release(oldest.task->id()) : 0;
        EXPECT_EQ(released, 0);
    }

    std::mt19937 random_;
    std::vector<Kind> kinds_;
    std::vector<Running> tasks_;
    unsigned shares_ = 0;
};

long number_from(const char *name, long otherwise)
{
    const char *given = getenv(name);
    return given ? strtol(given, nullptr, 10) : otherwise;
}

// Memory of killed tasks goes within a moment.
Level settled(const Level &before)
{
    Level level;
    eventually([&] {
        while (onespace_wait(ONESPACE_ANY, nullptr, 0) > 0)
            ;
        level = Level();
        return !level.is_above(before);
    });
    return level;
}

} // namespace

TEST_F(endurance, of_a_root_that_spawns_and_kills_programs_of_all_kinds)
{
    using Clock = std::chrono::steady_clock;
    constexpr long Looks = 20, Often = 50, Seldom = 5000;
    long spawns = number_from("ONESPACE_SPAWNS", want_long() ? 1000000 : 150);
    long minutes = number_from("ONESPACE_MINUTES", 1000000);
    unsigned seed = static_cast<unsigned>(number_from("ONESPACE_SEED", std::random_device()()));
    SCOPED_TRACE("ONESPACE_SEED=" + std::to_string(seed));
    const rlimit none = {0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_CORE, &none), 0);
    Mixture mixture(seed);
    mixture.warm_up();
    Level before = settled(Level());
    std::cout << "before: " << before << std::endl;
    auto end = Clock::now() + std::chrono::minutes(minutes);
    for (long done = 0; done < spawns && Clock::now() < end && !HasFailure();) {
        long until = std::min(spawns, done + std::clamp(spawns / Looks, Often, Seldom));
        for (; done < until && Clock::now() < end && !HasFailure(); done++)
            mixture.spawn();
        mixture.drain();
        Level level = settled(before);
        char slots[4096];
        probe_describe(slots, sizeof(slots));
        std::cout << done << " spawns: " << level << std::endl;
        EXPECT_FALSE(level.is_above(before))
            << slots << added_mappings(before.footprint, level.footprint);
    }
}
