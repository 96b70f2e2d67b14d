// plugins/adios2/engine.cpp: the engine `onespace` that ADIOS2 loads.
//
// ADIOS2 calls it by version 2 of its interface for plug-ins
// (adios2/plugin/PluginEngineInterface.h), and it calls ADIOS2 by the public C++ interface alone.
// Its constructor, called by Open, decides whether the space serves the stream (writer.hpp,
// reader.hpp) or another engine of ADIOS2 does (fallback.hpp). docs/adios2.md lists what the
// interface does not pass to plug-ins.
#include "fallback.hpp"
#include "reader.hpp"
#include "writer.hpp"

#include <adios2/plugin/PluginEngineInterface.h>
#include <onespace.h>

#include <cstdio>

namespace onespace_adios
{
namespace
{

using adios2::plugin::PluginEngineInterface;

template <class T> Request request_for(const adios2::Variable<T> &variable)
{
    Request request = {};
    request.name = variable.Name();
    request.element = element_of<T>;
    request.element_bytes = sizeof(T);
    request.shape_kind = variable.ShapeID();
    request.shape = variable.Shape();
    request.start = variable.Start();
    request.count = variable.Count();
    request.block = variable.BlockID();
    return request;
}

// A Get with a Selection, which replaces the variable's own.
template <class T>
Request request_for(const adios2::Variable<T> &variable, const adios2::core::Selection &selection)
{
    if (selection.GetStepStart() != 0 || selection.GetStepCount() != 1)
        throw std::invalid_argument("onespace: Get of \"" + variable.Name() +
                                    "\": a stream has one step at a time");
    Request request = request_for(variable);
    bool is_box = selection.GetSelectionType() == adios2::SelectionType::BoundingBox;
    bool has_block = selection.HasBlockSelection();
    bool is_local_array = request.shape_kind == adios2::ShapeID::LocalArray;
    if (is_box && has_block && request.shape_kind == adios2::ShapeID::GlobalArray)
        throw std::invalid_argument("onespace: Get of \"" + variable.Name() +
                                    "\": a Selection of a global array is a box or a block, not "
                                    "both");
    // ADIOS2 computes the size of All().WithBlock() from Count(), so copy_block must verify it.
    bool has_count_of_variable =
        is_local_array && selection.GetSelectionType() == adios2::SelectionType::All;
    request.is_block = has_block && !is_box && !has_count_of_variable;
    request.block = has_block ? selection.GetBlockID() : is_local_array ? 0 : NO_BLOCK;
    if (is_box) {
        request.start = selection.GetStart();
        request.count = selection.GetCount();
    } else if (has_count_of_variable || request.shape_kind == adios2::ShapeID::LocalValue) {
        request.start.clear();
    } else {
        request.start = Dims(request.shape.size(), 0);
        request.count = request.shape;
    }
    request.memory_start = selection.GetMemoryStart();
    request.memory_count = selection.GetMemoryCount();
    return request;
}

class Engine : public PluginEngineInterface
{
  public:
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    Engine(adios2::IO io, const std::string &label, adios2::Mode mode, MPI_Comm comm)
        : PluginEngineInterface(io, label, mode, comm),
          parameters(read_parameters(io.Parameters())), ranks(ranks_of(comm))
#else
    Engine(adios2::IO io, const std::string &label, adios2::Mode mode)
        : PluginEngineInterface(io, label, mode), parameters(read_parameters(io.Parameters()))
#endif
    {
        open();
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, const float timeout) override
    {
        return fallback ? fallback->engine.BeginStep(mode, timeout)
               : writer ? writer->begin_step(timeout)
                        : reader->begin_step(mode, timeout);
    }
    void EndStep() override
    {
        fallback ? fallback->engine.EndStep() : writer ? writer->end_step() : reader->end_step();
    }
    size_t CurrentStep() const override
    {
        return fallback ? fallback->engine.CurrentStep()
               : writer ? writer->current_step()
                        : reader->current_step();
    }
    void PerformPuts() override
    {
        if (fallback)
            fallback->engine.PerformPuts();
        else if (writer)
            writer->perform_puts();
    }
    void PerformGets() override
    {
        if (fallback)
            fallback->engine.PerformGets();
        else if (reader)
            reader->perform_gets();
    }
    adios2::MinVarInfo *MinBlocksInfo(const std::string &variable, const size_t step) const override
    {
        return fallback ? fallback->blocks(variable, step)
               : reader ? reader->blocks(variable)
                        : nullptr;
    }
    void DoClose(const int transport) override
    {
        if (fallback)
            fallback->engine.Close(transport);
        else if (writer)
            writer->close();
        else
            reader->close();
        contact_file.reset();
        ranks.release();
    }

#define ONESPACE_CALLS(T)                                                                          \
    void DoPutSync(adios2::Variable<T> variable, const T *values) override                         \
    {                                                                                              \
        put(variable, values, adios2::Mode::Sync);                                                 \
    }                                                                                              \
    void DoPutDeferred(adios2::Variable<T> variable, const T *values) override                     \
    {                                                                                              \
        put(variable, values, adios2::Mode::Deferred);                                             \
    }                                                                                              \
    void DoGetSync(adios2::Variable<T> variable, T *values) override                               \
    {                                                                                              \
        get(variable, values, adios2::Mode::Sync);                                                 \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values) override                           \
    {                                                                                              \
        get(variable, values, adios2::Mode::Deferred);                                             \
    }                                                                                              \
    void DoGetSync(adios2::Variable<T> variable, T *values,                                        \
                   const adios2::core::Selection &selection) override                              \
    {                                                                                              \
        get_selected(variable, values, selection, adios2::Mode::Sync);                             \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values,                                    \
                       const adios2::core::Selection &selection) override                          \
    {                                                                                              \
        get_selected(variable, values, selection, adios2::Mode::Deferred);                         \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_CALLS)
#undef ONESPACE_CALLS

#define ONESPACE_SPAN(T)                                                                           \
    void DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &, const bool,     \
               const T &) override                                                                 \
    {                                                                                              \
        throw std::invalid_argument("onespace: Put of \"" + variable.Name() +                      \
                                    "\" with a span: ADIOS2 does not let plug-ins provide its "    \
                                    "memory: use Put with a pointer");                             \
    }
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(ONESPACE_SPAN)
#undef ONESPACE_SPAN

  private:
    void open();
    std::string why_space_unusable() const;
    void open_writer();
    void open_reader();
    void open_fallback(const std::string &reason);

    template <class T> void put(adios2::Variable<T> variable, const T *values, adios2::Mode launch)
    {
        if (fallback)
            fallback->engine.Put(variable, values, launch);
        else if (writer)
            writer->put(request_for(variable), values, launch == adios2::Mode::Deferred);
        else
            throw std::logic_error("onespace: Put to stream \"" + parameters.channel +
                                   "\", which is open for reading");
    }
    template <class T> void get(adios2::Variable<T> variable, T *values, adios2::Mode launch)
    {
        if (fallback)
            fallback->engine.Get(variable, values, launch);
        else
            get_request(request_for(variable), values, launch);
    }
    template <class T>
    void get_selected(adios2::Variable<T> variable, T *values,
                      const adios2::core::Selection &selection, adios2::Mode launch)
    {
        if (fallback)
            throw std::invalid_argument("onespace: Get of \"" + variable.Name() +
                                        "\" with a Selection: the engine " + parameters.fallback +
                                        " serves the stream, which needs SetSelection instead");
        get_request(request_for(variable, selection), values, launch);
    }
    void get_request(const Request &request, void *values, adios2::Mode launch)
    {
        if (!reader)
            throw std::logic_error("onespace: Get from stream \"" + parameters.channel +
                                   "\", which is open for writing");
        reader->get(request, values, launch == adios2::Mode::Deferred);
    }

    const Parameters parameters;
    Ranks ranks;
    // Open sets one of these three.
    std::unique_ptr<Writer> writer;
    std::unique_ptr<Reader> reader;
    std::unique_ptr<FallbackEngine> fallback;
    std::unique_ptr<ContactFile> contact_file; // of the writer's first rank
};

// ---- Open ----

void Engine::open()
{
    if (m_OpenMode != adios2::Mode::Write && m_OpenMode != adios2::Mode::Read)
        throw std::invalid_argument(
            "onespace: a stream must be opened with Mode::Write or Mode::Read");
    if (parameters.ranks_by_launcher && ranks.size == 1)
        ranks = ranks_of_launcher();
    std::string reason = why_space_unusable();
    if (reason.empty())
        reason = open_on_all(
            ranks, parameters.channel,
            [this] { m_OpenMode == adios2::Mode::Write ? open_writer() : open_reader(); },
            [this] {
                writer.reset();
                reader.reset();
                contact_file.reset();
            });
    if (!reason.empty())
        open_fallback(reason);
    if (!fallback && parameters.verbose && ranks.rank == 0)
        fprintf(stderr, "onespace: stream \"%s\": in the space of process %d\n",
                parameters.channel.c_str(), onespace_pid(0));
}

// "" if the space can serve the stream. All ranks decide alike.
std::string Engine::why_space_unusable() const
{
    std::string reason;
    if (!ranks.on_one_node)
        reason = "its " + std::to_string(ranks.size) + " ranks run on several nodes";
    else if (onespace_self() < 0)
        reason = "this process is in no space: start it with onespace run [--space NAME] PROGRAM";
    if (ranks.any(!reason.empty()) && reason.empty())
        reason = "another rank is in no space";
    return reason;
}

void Engine::open_writer()
{
    writer = std::make_unique<Writer>(m_IO, parameters.channel, parameters, ranks);
    if (ranks.rank == 0)
        contact_file = std::make_unique<ContactFile>(parameters.channel);
}

void Engine::open_reader()
{
    auto why_not_in_space = [this]() -> std::string {
        const std::string &stream = parameters.channel;
        std::string advice;
        bool has_sst_writer = parameters.fallback == "SST" && find_sst(stream);
        if (has_sst_writer && !find_contact(stream, &advice))
            return "its writer is not in this space: " + stream + ".sst exists";
        return "";
    };
    reader =
        std::make_unique<Reader>(m_IO, parameters.channel, parameters, ranks, why_not_in_space);
}

// Each end decides alone, because the two cannot communicate.
void Engine::open_fallback(const std::string &reason)
{
    const std::string stream = "onespace: Open of stream \"" + parameters.channel + "\": " + reason;
    std::string advice;
    if (m_OpenMode == adios2::Mode::Read && find_contact(parameters.channel, &advice))
        throw std::runtime_error(stream + "; but " + advice);
    if (parameters.fallback.empty())
        throw std::runtime_error(stream + " (Fallback is \"none\")");
    if (!ranks.can_communicate())
        throw std::runtime_error(stream + "; and " + parameters.fallback +
                                 " of an ADIOS2 without MPI cannot write one stream from " +
                                 std::to_string(ranks.size) + " ranks");
    if (ranks.rank == 0)
        fprintf(stderr, "onespace: stream \"%s\": %s; %s is used instead\n",
                parameters.channel.c_str(), reason.c_str(), parameters.fallback.c_str());
    fallback =
        std::make_unique<FallbackEngine>(m_IO, parameters.channel, m_OpenMode, parameters, ranks);
}

} // namespace
} // namespace onespace_adios

// ---- The functions that ADIOS2 looks up ----

extern "C" {
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
__attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
EngineCreate(adios2::IO io, const std::string &label, const adios2::Mode mode, MPI_Comm comm)
{
    return new onespace_adios::Engine(io, label, mode, comm);
}
#else
__attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
EngineCreate(adios2::IO io, const std::string &label, const adios2::Mode mode)
{
    return new onespace_adios::Engine(io, label, mode);
}
#endif

__attribute__((visibility("default"))) void
EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
{
    delete engine;
}
}
