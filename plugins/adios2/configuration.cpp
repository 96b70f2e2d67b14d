// plugins/adios2/configuration.cpp: reads the engine's parameters and finds the ranks of a stream.
#include "configuration.hpp"

#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>

namespace onespace_adios
{
namespace
{

// ---- Values of parameters ----

constexpr unsigned QUEUE_LIMIT_MAX = 15; // a channel has 16 steps, including the one being written
constexpr unsigned READER_GROUPS_MAX = 2048;

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(), ::tolower);
    return text;
}

[[noreturn]] void reject(const std::string &key, const std::string &value,
                         const std::string &expected)
{
    throw std::invalid_argument("onespace: engine parameter " + key + "=\"" + value +
                                "\": must be " + expected);
}

unsigned number(const std::string &key, const std::string &value, unsigned max)
{
    bool is_number =
        !value.empty() && value.size() < 10 && std::all_of(value.begin(), value.end(), ::isdigit);
    unsigned result = is_number ? (unsigned)std::stoul(value) : 0;
    if (!is_number || result > max)
        reject(key, value, "a number from 0 to " + std::to_string(max));
    return result;
}

// Whether the value is `yes` rather than `no`.
bool choice(const std::string &key, const std::string &value, const std::string &yes,
            const std::string &no)
{
    if (lower(value) != yes && lower(value) != no)
        reject(key, value, "\"" + yes + "\" or \"" + no + "\"");
    return lower(value) == yes;
}

bool boolean(const std::string &key, const std::string &value)
{
    std::string word = lower(value);
    if (word == "true" || word == "yes" || word == "on")
        return true;
    if (word != "false" && word != "no" && word != "off")
        reject(key, value, "\"true\" or \"false\"");
    return false;
}

Parameters::Puts puts(const std::string &key, const std::string &value)
{
    std::string word = lower(value);
    if (word == "lend")
        return Parameters::Puts::lend;
    if (word != "copy" && word != "wait")
        reject(key, value, "\"lend\", \"copy\" or \"wait\"");
    return word == "copy" ? Parameters::Puts::copy : Parameters::Puts::wait;
}

unsigned poll_microseconds(const std::string &key, const std::string &value)
{
    constexpr unsigned MAX_US = 9999999;
    if (lower(value) == "auto")
        return Polling::AUTOMATIC_US;
    if (value.empty() || !std::all_of(value.begin(), value.end(), ::isdigit))
        reject(key, value, "\"auto\" or a number from 0 to " + std::to_string(MAX_US));
    return number(key, value, MAX_US);
}

// Parameters of SST for which this engine supports the default only.
void reject_if(bool is_set, const std::string &key, const std::string &value)
{
    if (is_set)
        throw std::invalid_argument("onespace: engine parameter " + key + "=\"" + value +
                                    "\" is supported by SST only: remove it");
}

// ---- The table of parameters ----

using Setter = std::function<void(Parameters &, const std::string &, const std::string &)>;

const std::map<std::string, Setter> &setters()
{
    using P = Parameters;
    using S = const std::string &;
    static const std::map<std::string, Setter> all = {
        {"channel", [](P &p, S, S v) { p.channel = v; }},
        {"queuelimit", [](P &p, S k, S v) { p.queue_limit = number(k, v, QUEUE_LIMIT_MAX); }},
        {"queuefullpolicy", [](P &p, S k, S v) { p.discards = choice(k, v, "discard", "block"); }},
        {"rendezvousreadercount",
         [](P &p, S k, S v) { p.reader_groups = number(k, v, READER_GROUPS_MAX); }},
        {"opentimeoutsecs", [](P &p, S k, S v) { p.open_timeout_s = number(k, v, 999999); }},
        {"alwaysprovidelatesttimestep", [](P &p, S k, S v) { p.takes_latest = boolean(k, v); }},
        {"ranks", [](P &p, S k, S v) { p.ranks_by_launcher = choice(k, v, "launcher", "alone"); }},
        {"puts", [](P &p, S k, S v) { p.puts = puts(k, v); }},
        {"mindeferredsize", [](P &p, S k, S v) { p.deferred_min_bytes = number(k, v, 999999999); }},
        {"firsttimestepprecious", [](P &p, S k, S v) { p.retains_first = boolean(k, v); }},
        {"reservequeuelimit", [](P &, S k, S v) { reject_if(number(k, v, 9999) != 0, k, v); }},
        {"stepdistributionmode", [](P &, S k, S v) { reject_if(lower(v) != "alltoall", k, v); }},
        {"spin", [](P &p, S k, S v) { p.poll_us = poll_microseconds(k, v); }},
        {"addresses", [](P &p, S k, S v) { p.shows_addresses = boolean(k, v); }},
        {"statslevel", [](P &p, S k, S v) { p.has_statistics = number(k, v, 1) != 0; }},
        {"fallback", [](P &p, S, S v) { p.fallback = lower(v) == "none" ? "" : v; }},
        {"verbose", [](P &p, S k, S v) { p.verbose = number(k, v, 9) != 0; }},
    };
    return all;
}

// Parameters of ADIOS2 itself, and those of SST that matter only when SST is the fallback.
bool is_ignored(const std::string &key)
{
    static const std::string names =
        " pluginname pluginlibrary registrationmethod datatransport wandatatransport "
        "mercuryprotocol isrowmajor networkinterface controltransport controlmodule "
        "controlinterface datainterface commpattern preloadmode marshalmethod compressionmethod "
        "speculativepreloadmode specautonodethreshold readershortcircuitreads uselateststep "
        "cpcommpattern numtimeststeps numtimesteps useonetimeattributes readerdptransport ";
    return names.find(" " + key + " ") != std::string::npos;
}

} // namespace

Parameters read_parameters(const adios2::Params &given)
{
    Parameters result;
    for (const auto &[key, value] : given) {
        auto found = setters().find(lower(key));
        if (found != setters().end()) {
            found->second(result, key, value);
        } else if (!is_ignored(lower(key))) {
            throw std::invalid_argument(
                "onespace: unknown engine parameter " + key +
                ": must be Channel, QueueLimit, QueueFullPolicy, RendezvousReaderCount, "
                "OpenTimeoutSecs, AlwaysProvideLatestTimestep, FirstTimestepPrecious, "
                "MinDeferredSize, Ranks, Puts, Spin, Addresses, StatsLevel, Fallback, verbose, or "
                "one of SST's");
        }
    }
    if (result.puts == Parameters::Puts::wait && (result.queue_limit > 0 || result.discards))
        throw std::invalid_argument("onespace: engine parameter Puts=\"wait\": EndStep waits for "
                                    "the readers: remove QueueLimit and QueueFullPolicy");
    if (result.channel.empty())
        throw std::invalid_argument(
            "onespace: engine parameter Channel is missing: ADIOS2 does not "
            "pass the name that was opened to plug-ins: set the same "
            "Channel for the writer and its readers");
    return result;
}

// ---- Ranks ----

Ranks ranks_of_launcher()
{
    static constexpr struct {
        const char *rank, *size, *size_on_node;
    } launchers[] = {
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS", nullptr},
        {"ONESPACE_TASK_ID", "ONESPACE_NTASKS", nullptr},
    };
    for (const auto &launcher : launchers) {
        const char *rank = getenv(launcher.rank), *size = getenv(launcher.size);
        if (!rank || !size)
            continue;
        Ranks ranks;
        ranks.rank = (unsigned)atoi(rank);
        ranks.size = (unsigned)atoi(size);
        const char *on_node = launcher.size_on_node ? getenv(launcher.size_on_node) : nullptr;
        if (on_node)
            ranks.on_one_node = (unsigned)atoi(on_node) == ranks.size;
        if (ranks.size > 0 && ranks.rank < ranks.size)
            return ranks;
    }
    return {};
}

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
Ranks ranks_of(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL) // opened without a communicator
        return {};
    Ranks ranks;
    int rank, size, node_size;
    MPI_Comm node;
    ranks.comm.reset(new MPI_Comm(MPI_COMM_NULL));
    if (MPI_Comm_dup(comm, ranks.comm.get()) != MPI_SUCCESS)
        throw std::runtime_error("onespace: Open: MPI cannot duplicate the communicator");
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
    ranks.rank = (unsigned)rank;
    ranks.size = (unsigned)size;
    ranks.on_one_node = node_size == size;
    return ranks;
}

void Ranks::FreeComm::operator()(MPI_Comm *freed) const
{
    int is_finalized;
    MPI_Finalized(&is_finalized);
    if (!is_finalized && *freed != MPI_COMM_NULL)
        MPI_Comm_free(freed);
    delete freed;
}
#endif

void Ranks::allreduce_max([[maybe_unused]] uint64_t *values, [[maybe_unused]] int count) const
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    if (comm)
        MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_UINT64_T, MPI_MAX, *comm);
#endif
}

bool Ranks::any(bool condition) const
{
    uint64_t value = condition;
    allreduce_max(&value, 1);
    return value != 0;
}

void Ranks::release()
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    comm.reset();
#endif
}

std::string open_on_all(const Ranks &ranks, const std::string &stream,
                        const std::function<void()> &open, const std::function<void()> &undo)
{
    enum Outcome : uint64_t { is_open, is_not_in_space, has_failed };
    uint64_t worst = is_open;
    std::string reason = "another rank has not found it in this space";
    std::exception_ptr error;
    try {
        open();
    } catch (const NotInSpace &failure) {
        worst = is_not_in_space;
        reason = failure.what();
    } catch (...) {
        worst = has_failed;
        error = std::current_exception();
    }
    ranks.allreduce_max(&worst, 1);
    if (worst == is_open)
        return "";
    undo();
    if (error)
        std::rethrow_exception(error);
    if (worst == has_failed)
        throw std::runtime_error("onespace: Open of stream \"" + stream +
                                 "\": another rank could not open it");
    return reason;
}

bool Ranks::can_communicate() const
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    return size == 1 || comm;
#else
    return size == 1;
#endif
}

} // namespace onespace_adios
