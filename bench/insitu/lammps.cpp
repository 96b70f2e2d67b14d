// bench/insitu/lammps.cpp: LAMMPS, as the distribution has it, with an analysis beside it.
//
//   lammps none|onespace|glue CELLS STEPS PAIRS-PROGRAM DISTANCE SIMULATION-CPUS
//   ANALYSIS-CPUS
//
// A fix of our own hands the positions out where they are final for a step: before the forces are
// computed. They stay as they are until the next step's positions are computed, at which place
// (initial_integrate) the fix takes them back. With `onespace` the step is published where it lies
// and the analysis copies it while the forces are computed; with `glue` the fix copies it into
// shared memory and the analysis copies it out (glue.h). CPUS are lists with commas. Prints "lammps
// CELLS SECONDS" for the loop over the steps, then the analysis prints its line.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <string>
#include <sys/wait.h>

// LAMMPS's headers want the fmt that it brings; the distribution has a later one without this.
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

#include "glue.h"
#include "ticks.h"
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

onespace_insitu *channel;
glue *buffer;

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

void put_number(const char *name, double number)
{
    onespace_insitu_attribute attribute = {name, ONESPACE_INSITU_NUMBER, 0, number, nullptr};
    check(name, onespace_insitu_put_attribute(channel, &attribute));
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
        if (channel)
            check("begin",
                  onespace_insitu_begin(channel, static_cast<uint64_t>(update->ntimestep), -1));
    }
    void pre_force(int) override
    {
        if (channel)
            publish();
        if (buffer)
            copy();
    }

  private:
    void publish()
    {
        auto atoms = static_cast<uint64_t>(atom->nlocal);
        put_array("coordsets/coords/values", atom->x[0], ONESPACE_INSITU_FLOAT64, atoms, 3);
        put_array("fields/tag/values", atom->tag, ONESPACE_INSITU_INT32, atoms, 1);
        for (int d = 0; d < 3; d++) {
            put_number((std::string("box/low/") + "xyz"[d]).c_str(), domain->boxlo[d]);
            put_number((std::string("box/high/") + "xyz"[d]).c_str(), domain->boxhi[d]);
        }
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
        std::memcpy(glue_tags(buffer), atom->tag, atoms * sizeof(int32_t));
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

struct Analysis {
    std::string kind, program, distance, name;
    long atoms;
    cpu_set_t cpus;
    int task = 0;
    pid_t process = 0;

    void start()
    {
        std::string room = std::to_string(atoms);
        char *words[] = {program.data(),
                         kind.data(),
                         name.data(),
                         distance.data(),
                         kind == "glue" ? room.data() : nullptr,
                         nullptr};
        if (kind == "onespace") {
            onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
            attr.cpus = &cpus;
            attr.cpus_size = sizeof(cpus);
            task = onespace_spawn(words[0], words, nullptr, &attr);
            check("spawn", task);
        } else {
            int error = posix_spawn(&process, words[0], nullptr, nullptr, words, environ);
            if (error)
                fail("posix_spawn", error);
            sched_setaffinity(process, sizeof(cpus), &cpus);
        }
    }
    int wait()
    {
        onespace_status status = {};
        int process_status = 0;
        if (task && onespace_wait(task, &status, 60000) != task)
            return 1;
        if (process && waitpid(process, &process_status, 0) != process)
            return 1;
        return status.status != 0 || process_status != 0;
    }
};

void open_hand_over(Analysis &analysis)
{
    if (analysis.kind == "onespace") {
        onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
        options.consumers = 1;
        check("init", onespace_init());
        check("create", onespace_insitu_create(analysis.name.c_str(), &options, &channel));
    } else {
        analysis.name = "/onespace-bench-" + std::to_string(getpid());
        buffer = glue_map(analysis.name.c_str(), analysis.atoms, 1);
        if (!buffer)
            fail("shared memory", errno);
    }
    analysis.start();
}

int close_hand_over(Analysis &analysis)
{
    if (channel)
        check("close", onespace_insitu_close(channel, -1));
    if (buffer) {
        while (sem_wait(&buffer->is_free) != 0)
            ;
        buffer->ended = 1;
        sem_post(&buffer->is_full);
    }
    int result = analysis.wait();
    if (buffer)
        shm_unlink(analysis.name.c_str());
    return result;
}

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
    if (argc != 8) {
        std::fprintf(stderr, "usage: lammps none|onespace|glue CELLS STEPS PAIRS-PROGRAM DISTANCE "
                             "SIMULATION-CPUS ANALYSIS-CPUS\n");
        return 2;
    }
    std::string kind = argv[1], cells = argv[2];
    long n = std::atol(argv[2]);
    Analysis analysis = {kind, argv[4], argv[5], "positions", 4 * n * n * n, cpus_of(argv[7])};
    // As many as the analysis has processors; LAMMPS itself is built without its OpenMP styles.
    setenv("OMP_NUM_THREADS", std::to_string(CPU_COUNT(&analysis.cpus)).c_str(), 1);
    cpu_set_t mine = cpus_of(argv[6]);
    sched_setaffinity(0, sizeof(mine), &mine);
    if (kind != "none")
        open_hand_over(analysis);
    void *lammps = set_up(cells);
    commands(lammps, "fix handover all insitu\nfix move all nve\nrun 0\n"); // the fix comes first
    commands(lammps, "run 20 pre no post no\n"); // and both sides are there
    double start = seconds_now();
    commands(lammps, std::string("run ") + argv[3] + " pre no post no\n");
    double seconds = seconds_now() - start;
    std::printf("lammps %ld %.9f\n", n, seconds);
    std::fflush(stdout);
    int result = kind == "none" ? 0 : close_hand_over(analysis);
    lammps_close(lammps);
    return result;
}
