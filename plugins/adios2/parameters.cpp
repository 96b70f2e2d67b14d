// plugins/adios2/parameters.cpp: reads and checks the engine's parameters.
#include "parameters.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>

namespace onespace_adios
{
namespace
{

constexpr unsigned QUEUE_MAX = 15; // a channel has 16 steps, of which one is being written

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(), ::tolower);
    return text;
}

[[noreturn]] void refuse(const std::string &key, const std::string &value, const std::string &may)
{
    throw std::invalid_argument("onespace: engine parameter " + key + "=\"" + value + "\": it is " +
                                may);
}

unsigned number(const std::string &key, const std::string &value, unsigned most)
{
    bool is_number =
        !value.empty() && value.size() < 10 && std::all_of(value.begin(), value.end(), ::isdigit);
    unsigned result = is_number ? (unsigned)std::stoul(value) : 0;
    if (!is_number || result > most)
        refuse(key, value, "a number from 0 to " + std::to_string(most));
    return result;
}

bool choice(const std::string &key, const std::string &value, const std::string &yes,
            const std::string &no)
{
    if (lower(value) != yes && lower(value) != no)
        refuse(key, value, "\"" + yes + "\" or \"" + no + "\"");
    return lower(value) == yes;
}

bool boolean(const std::string &key, const std::string &value)
{
    std::string word = lower(value);
    if (word == "true" || word == "yes" || word == "on")
        return true;
    if (word != "false" && word != "no" && word != "off")
        refuse(key, value, "\"true\" or \"false\"");
    return false;
}

Parameters::Puts puts(const std::string &key, const std::string &value)
{
    std::string word = lower(value);
    if (word == "lend")
        return Parameters::Puts::lend;
    if (word != "copy" && word != "wait")
        refuse(key, value, "\"lend\", \"copy\" or \"wait\"");
    return word == "copy" ? Parameters::Puts::copy : Parameters::Puts::wait;
}

unsigned microseconds(const std::string &key, const std::string &value)
{
    constexpr unsigned MOST = 9999999;
    if (lower(value) == "auto")
        return Polling::BY_ITSELF;
    if (value.empty() || !std::all_of(value.begin(), value.end(), ::isdigit))
        refuse(key, value, "\"auto\" or a number from 0 to " + std::to_string(MOST));
    return number(key, value, MOST);
}

// SST's, of which this engine knows the default alone.
void refuse_if(bool is_set, const std::string &key, const std::string &value)
{
    if (is_set)
        throw std::invalid_argument("onespace: engine parameter " + key + "=\"" + value +
                                    "\" is for SST alone: leave it out");
}

using Setter = std::function<void(Parameters &, const std::string &, const std::string &)>;

const std::map<std::string, Setter> &setters()
{
    using P = Parameters;
    using S = const std::string &;
    static const std::map<std::string, Setter> all = {
        {"channel", [](P &p, S, S v) { p.channel = v; }},
        {"queuelimit", [](P &p, S k, S v) { p.queue_limit = number(k, v, QUEUE_MAX); }},
        {"queuefullpolicy", [](P &p, S k, S v) { p.discards = choice(k, v, "discard", "block"); }},
        {"rendezvousreadercount", [](P &p, S k, S v) { p.readers = number(k, v, 2048); }},
        {"opentimeoutsecs", [](P &p, S k, S v) { p.open_timeout = number(k, v, 999999); }},
        {"alwaysprovidelatesttimestep", [](P &p, S k, S v) { p.latest = boolean(k, v); }},
        {"ranks", [](P &p, S k, S v) { p.ranks_by_launcher = choice(k, v, "launcher", "alone"); }},
        {"puts", [](P &p, S k, S v) { p.puts = puts(k, v); }},
        {"mindeferredsize", [](P &p, S k, S v) { p.copied_at_once = number(k, v, 999999999); }},
        {"firsttimestepprecious", [](P &p, S k, S v) { p.keeps_first = boolean(k, v); }},
        {"reservequeuelimit", [](P &, S k, S v) { refuse_if(number(k, v, 9999) != 0, k, v); }},
        {"stepdistributionmode", [](P &, S k, S v) { refuse_if(lower(v) != "alltoall", k, v); }},
        {"spin", [](P &p, S k, S v) { p.spin_us = microseconds(k, v); }},
        {"addresses", [](P &p, S k, S v) { p.shows_addresses = boolean(k, v); }},
        {"statslevel", [](P &p, S k, S v) { p.has_statistics = number(k, v, 1) != 0; }},
        {"fallback", [](P &p, S, S v) { p.fallback = lower(v) == "none" ? "" : v; }},
        {"verbose", [](P &p, S k, S v) { p.verbose = number(k, v, 9) != 0; }},
    };
    return all;
}

// What may stand there for ADIOS2 itself, or for SST when it takes over.
bool is_of_others(const std::string &key)
{
    static const char *const names[] = {
        "pluginname",
        "pluginlibrary",
        "registrationmethod",
        "datatransport",
        "wandatatransport",
        "mercuryprotocol",
        "isrowmajor",
        "networkinterface",
        "controltransport",
        "controlmodule",
        "controlinterface",
        "datainterface",
        "commpattern",
        "preloadmode",
        "marshalmethod",
        "compressionmethod",
        "speculativepreloadmode",
        "specautonodethreshold",
        "readershortcircuitreads",
        "uselateststep",
        "cpcommpattern",
        "numtimeststeps",
        "numtimesteps",
        "useonetimeattributes",
        "readerdptransport",
    };
    return std::find(std::begin(names), std::end(names), key) != std::end(names);
}

} // namespace

Parameters read_parameters(const adios2::Params &given)
{
    Parameters result;
    for (const auto &[key, value] : given) {
        auto found = setters().find(lower(key));
        if (found != setters().end()) {
            found->second(result, key, value);
        } else if (!is_of_others(lower(key))) {
            throw std::invalid_argument(
                "onespace: there is no engine parameter " + key +
                ": there are Channel, QueueLimit, QueueFullPolicy, RendezvousReaderCount, "
                "OpenTimeoutSecs, AlwaysProvideLatestTimestep, FirstTimestepPrecious, "
                "MinDeferredSize, Ranks, Puts, Spin, "
                "Addresses, "
                "StatsLevel, Fallback, verbose, and those of SST");
        }
    }
    if (result.puts == Parameters::Puts::wait && (result.queue_limit > 0 || result.discards))
        throw std::invalid_argument("onespace: engine parameter Puts=\"wait\": EndStep waits for "
                                    "the readers, so leave QueueLimit and QueueFullPolicy out");
    return result;
}

} // namespace onespace_adios
