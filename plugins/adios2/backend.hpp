// plugins/adios2/backend.hpp: what the plug-in forwards to, once it is known whether the space
// serves the stream: the writer, the reader, or another engine.
#pragma once

#include "box.hpp"
#include "element.hpp"
#include "hidden.hpp"

#include <adios2.h>

#include <memory>
#include <string>

namespace onespace_adios
{

// A variable as the program passed it to Put or Get, without its C++ type.
struct Request {
    std::string name;
    Element element;
    size_t element_bytes;
    adios2::ShapeID shape_kind;
    Dims shape, start, count;
    size_t block;
    bool is_block = false;
    Dims memory_start, memory_count; // empty: none
    void *variable;                  // ADIOS2's
};

template <class T> Request request_for(const adios2::Variable<T> &variable)
{
    hidden::Selection selection = hidden::selection_of(hidden::core_of(variable));
    return {variable.Name(),
            element_of<T>,
            sizeof(T),
            variable.ShapeID(),
            variable.Shape(),
            variable.Start(),
            selection.is_block ? Dims() : variable.Count(),
            variable.BlockID(),
            selection.is_block,
            std::move(selection.memory_start),
            std::move(selection.memory_count),
            hidden::core_of(variable)};
}

class Backend
{
  public:
    virtual ~Backend() = default;
    virtual adios2::StepStatus begin_step(adios2::StepMode mode, float timeout_seconds) = 0;
    virtual void end_step() = 0;
    virtual size_t current_step() const = 0;
    virtual void perform_puts() = 0;
    virtual void perform_gets() = 0;
    virtual void close() = 0;
    virtual adios2::MinVarInfo *blocks(const std::string &variable) = 0;
};

// The two that a space serves, without types.
class Writing : public Backend
{
  public:
    virtual void put(const Request &request, const void *values, bool is_deferred) = 0;
    // Memory for the elements of the request, in place of a Put.
    virtual void *put_span(const Request &request) = 0;
    void perform_gets() override
    {
    }
};

class Reading : public Backend
{
  public:
    virtual void get(const Request &request, void *values, bool is_deferred) = 0;
    // Fills the request for a variable that the stream has defined, but for its shape and what
    // depends on the C++ type, without ADIOS2's calls, each of which makes strings. false: the
    // variable is not the stream's, or ADIOS2 keeps its members elsewhere.
    virtual bool describe(const void *variable, Request &request) const = 0;
    void perform_puts() override
    {
    }
};

// The request for a Get of what is selected, which needs no shape.
template <class T>
Request request_for_get(const Reading &reading, const adios2::Variable<T> &variable)
{
    Request request;
    if (!reading.describe(hidden::core_of(variable), request))
        return request_for(variable);
    request.element = element_of<T>;
    request.element_bytes = sizeof(T);
    return request;
}

} // namespace onespace_adios
