// plugins/adios2/stream.hpp: one opened stream: decides who serves it, the space or another engine,
// and forwards to that. What ADIOS2 calls is in plugin.cpp and plugin_before_2_12.cpp.
#pragma once

#include "contact.hpp"
#include "hidden.hpp"
#include "other.hpp"
#include "parameters.hpp"
#include "ranks.hpp"
#include "reader.hpp"
#include "writer.hpp"

#include <adios2.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace onespace_adios
{

class Stream
{
  public:
    // Called while ADIOS2 constructs its engine: hidden::Front looks for it on the stack.
    Stream(adios2::IO program_io, adios2::Mode open_mode, const Ranks &opened_by);
    ~Stream();

    adios2::StepStatus begin_step(adios2::StepMode step_mode, float timeout)
    {
        return other ? other->engine.BeginStep(step_mode, timeout)
                     : backend->begin_step(step_mode, timeout);
    }
    void end_step()
    {
        other ? other->engine.EndStep() : backend->end_step();
        for (const auto &function : at_end)
            function();
        at_end.clear();
    }
    // Calls it once, behind the next EndStep.
    void call_at_end(std::function<void()> function)
    {
        at_end.push_back(std::move(function));
    }
    size_t current_step() const
    {
        return other ? other->engine.CurrentStep() : backend->current_step();
    }
    void perform_puts()
    {
        other ? other->engine.PerformPuts() : backend->perform_puts();
    }
    void perform_gets()
    {
        other ? other->engine.PerformGets() : backend->perform_gets();
    }
    adios2::MinVarInfo *blocks(const std::string &variable, size_t step) const
    {
        return other ? other->blocks(variable, step) : backend->blocks(variable);
    }
    void close(int transport);

    template <class T> void put(adios2::Variable<T> variable, const T *values, adios2::Mode launch)
    {
        if (other)
            other->engine.Put(variable, values, launch);
        else
            writer().put(request_for(variable), values, launch == adios2::Mode::Deferred);
    }
    template <class T> void get(adios2::Variable<T> variable, T *values, adios2::Mode launch)
    {
        if (other)
            other->engine.Get(variable, values, launch);
        else
            reader().get(request_for_get(reader(), variable), values,
                         launch == adios2::Mode::Deferred);
    }
    // A selection that comes with the Get. Selection: adios2::core::Selection.
    template <class T, class Selection>
    void get_selected(adios2::Variable<T> variable, T *values, const Selection &which,
                      adios2::Mode launch);
    // `span`: ADIOS2's own object.
    template <class T>
    void put_span(adios2::Variable<T> variable, void *span, bool initialize, const T &value);

  private:
    std::string stream_name() const;
    std::string why_not_here() const;
    void open_writer();
    void open_reader();
    void fall_back(const std::string &why);
    Writing &writer() const;
    Reading &reader() const;

    adios2::IO io;
    const adios2::Mode mode;
    Ranks ranks;
    Parameters parameters;
    std::string name;
    hidden::Front front;
    hidden::Hooks hooks;
    std::unique_ptr<Contact> contact;
    std::unique_ptr<Backend> backend;
    Writing *writing = nullptr;
    Reading *reading = nullptr;
    std::unique_ptr<Other> other;
    std::vector<std::function<void()>> at_end;
};

template <class T, class Selection>
void Stream::get_selected(adios2::Variable<T> variable, T *values, const Selection &which,
                          adios2::Mode launch)
{
    if (other)
        throw std::invalid_argument("onespace: Get of \"" + variable.Name() +
                                    "\" with a selection: not with Fallback: use SetSelection");
    if (which.GetStepStart() != 0 || which.GetStepCount() != 1)
        throw std::invalid_argument("onespace: Get of \"" + variable.Name() +
                                    "\": a stream has one step at a time");
    Request request = request_for(variable);
    bool is_box = which.GetSelectionType() == adios2::SelectionType::BoundingBox;
    bool has_block = which.HasBlockSelection();
    if (is_box && has_block && request.shape_kind == adios2::ShapeID::GlobalArray)
        throw std::invalid_argument("onespace: Get of \"" + variable.Name() +
                                    "\": a box of one block of a global array: select either");
    request.is_block = has_block && !is_box;
    request.block = has_block ? which.GetBlockID() : 0;
    request.start = is_box ? which.GetStart() : Dims(request.shape.size(), 0);
    request.count = is_box ? which.GetCount() : request.shape;
    request.memory_start = which.GetMemoryStart();
    request.memory_count = which.GetMemoryCount();
    reader().get(request, values, launch == adios2::Mode::Deferred);
}

template <class Span> size_t span_size(void *span)
{
    return reinterpret_cast<Span *>(&span)->size();
}

template <class Span> const void *span_data(void *span)
{
    return reinterpret_cast<Span *>(&span)->data();
}

template <class T>
void Stream::put_span(adios2::Variable<T> variable, void *span, bool initialize, const T &value)
{
    using Span = typename adios2::Variable<T>::Span;
    if (other)
        throw std::invalid_argument("onespace: Put of \"" + variable.Name() +
                                    "\" with a span: not with Fallback: use Put with a pointer");
    Request request = request_for(variable);
    size_t count = elements_of(request.count);
    T *data = static_cast<T *>(writer().put_span(request));
    if (!front.found() || !hidden::set_span(span, span_size<Span>, span_data<Span>, data, count))
        throw std::runtime_error("onespace: Put of \"" + variable.Name() +
                                 "\" with a span: this ADIOS2, " ADIOS2_VERSION_STR
                                 ", does not let plug-ins have them: use Put with a pointer");
    if (initialize)
        std::fill_n(data, count, value);
}

} // namespace onespace_adios
