// plugins/adios2/stream.cpp: opens a stream: in the space, or with another engine.
#include "stream.hpp"

#include <onespace.h>

#include <cstdio>

namespace onespace_adios
{

std::string Stream::stream_name() const
{
    if (!parameters.channel.empty())
        return parameters.channel;
    if (front.found())
        return front.name();
    throw std::runtime_error("onespace: ADIOS2 " ADIOS2_VERSION_STR " did not say which name was "
                             "opened: give the engine parameter Channel, the same for the writer "
                             "and its readers");
}

// All ranks find the same answer.
std::string Stream::why_not_here() const
{
    std::string why;
    if (!ranks.on_one_node)
        why = "its " + std::to_string(ranks.size) + " ranks are on several nodes";
    else if (onespace_self() < 0)
        why = "this process is in no space: start it as onespace run [--space NAME] PROGRAM";
    if (ranks.largest(!why.empty()) && why.empty())
        why = "another rank is in no space";
    return why;
}

Stream::Stream(adios2::IO program_io, adios2::Mode open_mode, const Ranks &opened_by)
    : io(program_io), mode(open_mode), ranks(opened_by),
      parameters(read_parameters(program_io.Parameters())), front(hidden::Front::find(program_io))
{
    if (mode != adios2::Mode::Write && mode != adios2::Mode::Read)
        throw std::invalid_argument("onespace: a stream is opened with Mode::Write or Mode::Read");
    name = stream_name();
    if (parameters.ranks_by_launcher && ranks.size == 1)
        ranks = ranks_of_launcher();
    std::string why = why_not_here();
    try {
        if (!why.empty())
            fall_back(why);
        else if (mode == adios2::Mode::Write)
            open_writer();
        else
            open_reader();
    } catch (const Elsewhere &found) {
        fall_back(found.what());
    }
    hooks.current_step = [this] { return current_step(); };
    hooks.blocks = [this](const std::string &variable, size_t step) {
        return blocks(variable, step);
    };
    hooks.stream = this;
    if (other) {
        hooks.min_max = [](const void *, void *, void *) { return false; };
        hooks.span_count = [](const void *) { return size_t(0); };
        hooks.attribute_changed = [] {};
    }
    front.attach(&hooks);
    if (!other && parameters.verbose && ranks.rank == 0)
        fprintf(stderr, "onespace: stream \"%s\": in the space of process %d\n", name.c_str(),
                onespace_pid(0));
}

Stream::~Stream()
{
    front.detach();
}

void Stream::open_writer()
{
    auto made = std::make_unique<Writer>(io, name, parameters, ranks);
    Writer *end = made.get();
    hooks.min_max = [](const void *, void *, void *) { return false; };
    hooks.span_count = [end](const void *variable) { return end->span_count(variable); };
    if (front.found())
        end->will_be_told();
    hooks.attribute_changed = [end] { end->attribute_changed(); };
    writing = end;
    backend = std::move(made);
    if (ranks.rank == 0)
        contact = std::make_unique<Contact>(name);
}

void Stream::open_reader()
{
    auto is_elsewhere = [this]() -> std::string {
        std::string where;
        bool is_written = parameters.fallback == "SST" && find_sst(name);
        if (is_written && !find_contact(name, &where))
            return "its writer is not in this space, and has made " + name + ".sst";
        return "";
    };
    auto made = std::make_unique<Reader>(io, name, parameters, ranks, is_elsewhere);
    Reader *end = made.get();
    hooks.span_count = [](const void *) { return size_t(0); };
    hooks.attribute_changed = [] {};
    hooks.min_max = [end](const void *variable, void *min, void *max) {
        return end->min_max(variable, min, max);
    };
    end->set_adopt([this](void *variable) { front.adopt(variable); });
    reading = end;
    backend = std::move(made);
}

// A writer's readers cannot be told, so each end decides by itself, and says so.
void Stream::fall_back(const std::string &why)
{
    std::string where;
    if (mode == adios2::Mode::Read && find_contact(name, &where))
        throw std::runtime_error("onespace: Open of stream \"" + name + "\": " + why + "; but " +
                                 where);
    if (parameters.fallback.empty())
        throw std::runtime_error("onespace: Open of stream \"" + name + "\": " + why +
                                 " (there is no engine parameter Fallback)");
    if (!ranks.agrees())
        throw std::runtime_error("onespace: Open of stream \"" + name + "\": " + why + "; and " +
                                 parameters.fallback +
                                 " of an ADIOS2 without MPI cannot write "
                                 "one stream from " +
                                 std::to_string(ranks.size) + " ranks");
    if (ranks.rank == 0)
        fprintf(stderr, "onespace: stream \"%s\": %s; %s is used instead\n", name.c_str(),
                why.c_str(), parameters.fallback.c_str());
    other = std::make_unique<Other>(io, name, mode, parameters, ranks);
}

void Stream::close(int transport)
{
    if (other)
        other->engine.Close(transport);
    else
        backend->close();
    contact.reset();
    ranks.release();
}

Writing &Stream::writer() const
{
    if (!writing)
        throw std::logic_error("onespace: Put to stream \"" + name +
                               "\", which is open for reading");
    return *writing;
}

Reading &Stream::reader() const
{
    if (!reading)
        throw std::logic_error("onespace: Get from stream \"" + name +
                               "\", which is open for writing");
    return *reading;
}

} // namespace onespace_adios
