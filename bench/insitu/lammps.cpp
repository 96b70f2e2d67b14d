// bench/insitu/lammps.cpp: the distribution's LAMMPS with an analysis that runs alongside.
//
//   lammps CELLS BLOCKS PAIRS-PROGRAM DISTANCE SIMULATION-CPUS ANALYSIS-CPUS
//
// A fix of ours hands the positions out as soon as they are final for a step, which is before the
// forces are computed. With the channel, publish makes a copy, which the analysis reads in place;
// with the buffer, the fix copies them into shared memory and the analysis copies them out
// (shared_buffer.h). LAMMPS updates the positions in place at every step. If the analysis read the
// originals, LAMMPS would fetch their cache lines back one by one while moving the atoms, which
// costs more than a copy.
//
// A single run interleaves blocks of steps without an analysis, with the channel, and with the
// buffer. Changes of the machine affect all three alike, which resolves a hundredth of a step;
// separate runs would not. The analysis that is idle in a block sleeps. CPUS are comma-separated
// lists. Prints for each block "none|onespace|buffer CELLS SECONDS", the time of a step, and
// "handover-onespace|-buffer CELLS SECONDS", the part of it that the fix spent in handing over;
// each analysis prints its line.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// LAMMPS's headers need its bundled fmt; the distribution's is newer and lacks this.
#include <fmt/format.h>
#if FMT_VERSION >= 90000
namespace fmt
{
template <typename... Args, typename Format>
auto make_args_checked(const Format &, const std::remove_reference_t<Args> &...args)
{
    return make_format_args(args...);
}
} // namespace fmt
#endif

#include <lammps/atom.h>
#include <lammps/domain.h>
#include <lammps/fix.h>
#include <lammps/lammps.h>
#include <lammps/library.h>
#include <lammps/modify.h>
#include <lammps/update.h>

#include "shared_buffer.h"
#include "../lib/bench.h"
#include <onespace/insitu.h>

extern char **environ;

namespace
{

[[noreturn]] void fail(const char *what, int error)
{
    std::fprintf(stderr, "lammps: %s: %s: %s\n", what, std::strerror(error),
                 onespace_insitu_message());
    std::exit(1);
}

void check(const char *what, int result)
{
    if (result < 0)
        fail(what, -result);
}

// Kinds are bits: the first steps go to both analyses, so that their results can be compared.
enum Kind { None = 0, Channel = 1, Buffer = 2, Both = 3 };

onespace_insitu *channel;
shared_buffer *buffer;

// LAMMPS rebuilds its neighbour lists every 20 steps: each timed span contains equally many.
enum { Settle = 20, Timed = 40, Block = Settle + Timed };

// The kind of each step, and the cost of the steps of each block.
class Schedule
{
  public:
    Kind kind = None;
    double handing_over = 0; // seconds, in this block's timed steps

    // To be called before each step, numbered from 0.
    void begin_step(long step)
    {
        long at = step - CHECKED_STEPS;
        if (at < 0) {
            kind = Both;
        } else if (at % Block == 0) {
            finish_block();
            kind = kind_of(at / Block);
        } else if (at % Block == Settle) {
            handing_over = 0;
            began = seconds_now();
        }
    }
    void finish_block()
    {
        if (began == 0)
            return;
        double whole = seconds_now() - began;
        blocks.push_back({kind, whole / int{Timed}, handing_over / int{Timed}});
    }
    void print(long cells) const
    {
        static const char *const names[] = {"none", "onespace", "buffer"};
        for (const Cost &cost : blocks) {
            std::printf("%s %ld %.9f\n", names[cost.kind], cells, cost.step);
            if (cost.kind != None)
                std::printf("handover-%s %ld %.9f\n", names[cost.kind], cells, cost.handing_over);
        }
    }

  private:
    struct Cost {
        Kind kind;
        double step, handing_over;
    };
    std::vector<Cost> blocks;
    double began = 0;

    // The order changes from round to round, so that no kind always follows the same one.
    static Kind kind_of(long block)
    {
        static const Kind order[] = {None, Channel, Buffer, None, Buffer, Channel};
        return order[block % 6];
    }
};
Schedule schedule;

void put_array(const char *name, void *address, int type, uint64_t atoms, uint64_t components)
{
    onespace_insitu_array array = {};
    array.name = name;
    array.address = address;
    array.type = type;
    array.dimensions = components == 1 ? 1 : 2;
    array.shape[0] = atoms;
    array.shape[1] = components == 1 ? 0 : components;
    check(name, onespace_insitu_put(channel, &array));
}

// Hands each step's positions out.
class FixInSitu : public LAMMPS_NS::Fix
{
  public:
    FixInSitu(LAMMPS_NS::LAMMPS *lammps, int argc, char **argv) : Fix(lammps, argc, argv)
    {
    }
    int setmask() override
    {
        return LAMMPS_NS::FixConst::INITIAL_INTEGRATE | LAMMPS_NS::FixConst::PRE_FORCE;
    }
    void initial_integrate(int) override
    {
        schedule.begin_step(steps++);
    }
    void pre_force(int) override
    {
        double start = seconds_now();
        if (schedule.kind & Channel)
            publish();
        if (schedule.kind & Buffer)
            copy();
        schedule.handing_over += seconds_now() - start;
    }

  private:
    long steps = 0;

    void publish()
    {
        auto atoms = static_cast<uint64_t>(atom->nlocal);
        check("begin",
              onespace_insitu_begin(channel, static_cast<uint64_t>(update->ntimestep), -1));
        put_array("coordsets/coords/values", atom->x[0], ONESPACE_INSITU_FLOAT64, atoms, 3);
        put_array("fields/tag/values", atom->tag, ONESPACE_INSITU_INT32, atoms, 1);
        double box[2][3];
        std::memcpy(box[0], domain->boxlo, sizeof(box[0]));
        std::memcpy(box[1], domain->boxhi, sizeof(box[1]));
        put_array("box", box, ONESPACE_INSITU_FLOAT64, 2, 3);
        check("publish", onespace_insitu_publish(channel));
    }
    void copy()
    {
        while (sem_wait(&buffer->is_free) != 0)
            ;
        auto atoms = static_cast<size_t>(atom->nlocal);
        buffer->step = update->ntimestep;
        buffer->atoms = atom->nlocal;
        std::memcpy(buffer->positions, atom->x[0], atoms * 3 * sizeof(double));
        std::memcpy(buffer_tags(buffer), atom->tag, atoms * sizeof(int32_t));
        std::memcpy(buffer->low, domain->boxlo, sizeof(buffer->low));
        std::memcpy(buffer->high, domain->boxhi, sizeof(buffer->high));
        sem_post(&buffer->is_full);
    }
};

LAMMPS_NS::Fix *make_fix(LAMMPS_NS::LAMMPS *lammps, int argc, char **argv)
{
    return new FixInSitu(lammps, argc, argv);
}

cpu_set_t cpus_of(const char *list)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const char *at = list; *at;) {
        char *end;
        CPU_SET(std::strtoul(at, &end, 10), &set);
        at = *end ? end + 1 : end;
    }
    return set;
}

// One analysis for each kind: a task of this space, and a process.
struct Analyses {
    std::string program, distance, room;
    cpu_set_t cpus;
    int task = 0;
    pid_t process = 0;

    void start()
    {
        std::string channel_name = "positions",
                    shared = "/onespace-bench-" + std::to_string(getpid());
        onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
        options.policy = ONESPACE_INSITU_COPY;
        options.depth = 2; // as the buffer: one step waits while one is analysed
        options.consumers = 1;
        check("init", onespace_init());
        check("create", onespace_insitu_create(channel_name.c_str(), &options, &channel));
        buffer = buffer_map(shared.c_str(), std::stol(room), 1);
        if (!buffer)
            fail("shared memory", errno);
        start_task(channel_name);
        start_process(shared);
        while (!buffer->is_mapped && waitpid(process, nullptr, WNOHANG) == 0)
            usleep(1000);
        shm_unlink(shared.c_str());
        if (!buffer->is_mapped)
            fail("the analysis has ended", ECHILD);
    }
    // Both must have exited with 0.
    bool end()
    {
        onespace_status status = {};
        int process_status = 0;
        check("close", onespace_insitu_close(channel, -1));
        while (sem_wait(&buffer->is_free) != 0)
            ;
        buffer->ended = 1;
        sem_post(&buffer->is_full);
        return onespace_wait(task, &status, 60000) == task && status.status == 0 &&
               waitpid(process, &process_status, 0) == process && process_status == 0;
    }

  private:
    void start_task(std::string &name)
    {
        char kind[] = "onespace";
        char *words[] = {program.data(), kind, name.data(), distance.data(), nullptr};
        onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
        attr.cpus = &cpus;
        attr.cpus_size = sizeof(cpus);
        task = onespace_spawn(words[0], words, nullptr, &attr);
        check("spawn", task);
    }
    void start_process(std::string &name)
    {
        char kind[] = "buffer";
        char *words[] = {program.data(), kind, name.data(), distance.data(), room.data(), nullptr};
        int error = posix_spawn(&process, words[0], nullptr, nullptr, words, environ);
        if (error)
            fail("posix_spawn", error);
        sched_setaffinity(process, sizeof(cpus), &cpus);
    }
};

void commands(void *lammps, const std::string &text)
{
    lammps_commands_string(lammps, text.c_str());
    if (lammps_has_error(lammps)) {
        char message[512];
        lammps_get_last_error_message(lammps, message, sizeof(message));
        std::fprintf(stderr, "lammps: %s\n", message);
        std::exit(1);
    }
}

// The Lennard-Jones melt of LAMMPS's own bench/in.lj.
void *set_up(const std::string &cells)
{
    const char *words[] = {"lammps", "-log", "none", "-screen", "none"};
    void *lammps = lammps_open_no_mpi(5, const_cast<char **>(words), nullptr);
    auto *instance = static_cast<LAMMPS_NS::LAMMPS *>(lammps);
    (*instance->modify->fix_map)["insitu"] = make_fix;
    commands(lammps, "units lj\natom_style atomic\nlattice fcc 0.8442\n"
                     "region box block 0 " +
                         cells + " 0 " + cells + " 0 " + cells +
                         "\n"
                         "create_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\n"
                         "velocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\n"
                         "pair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\n"
                         "neigh_modify delay 0 every 20 check no\n");
    return lammps;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 7) {
        std::fprintf(stderr, "usage: lammps CELLS BLOCKS PAIRS-PROGRAM DISTANCE SIMULATION-CPUS "
                             "ANALYSIS-CPUS\n");
        return 2;
    }
    long cells = std::atol(argv[1]), steps = CHECKED_STEPS + std::atol(argv[2]) * Block;
    Analyses analyses = {argv[3], argv[4], std::to_string(4 * cells * cells * cells),
                         cpus_of(argv[6])};
    // One thread per CPU of the analysis; LAMMPS itself is built without its OpenMP styles.
    setenv("OMP_NUM_THREADS", std::to_string(CPU_COUNT(&analyses.cpus)).c_str(), 1);
    cpu_set_t mine = cpus_of(argv[5]);
    sched_setaffinity(0, sizeof(mine), &mine);
    analyses.start();
    void *lammps = set_up(argv[1]);
    commands(lammps, "fix move all nve\nrun 0\nrun 200 pre no post no\n"); // until it has molten
    commands(lammps, "unfix move\nfix handover all insitu\nfix move all nve\nrun 0\n");
    commands(lammps, "run " + std::to_string(steps) + " pre no post no\n");
    schedule.finish_block();
    schedule.print(cells);
    std::fflush(stdout);
    bool is_good = analyses.end();
    lammps_close(lammps);
    return is_good ? 0 : 1;
}
