// plugins/adios2/plugin.cpp: the engine `onespace`, as ADIOS2 from 2.12 on loads it: the calls of
// version 2 of its interface for plug-ins (adios2/plugin/PluginEngineInterface.h).
#include "stream.hpp"

#include <adios2/plugin/PluginEngineInterface.h>

namespace onespace_adios
{
namespace
{

using adios2::plugin::PluginEngineInterface;

class Engine : public PluginEngineInterface
{
  public:
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    Engine(adios2::IO io, const std::string &label, adios2::Mode mode, MPI_Comm comm)
        : PluginEngineInterface(io, label, mode, comm), stream(io, mode, ranks_of(comm))
    {
    }
#else
    Engine(adios2::IO io, const std::string &label, adios2::Mode mode)
        : PluginEngineInterface(io, label, mode), stream(io, mode, {})
    {
    }
#endif

    adios2::StepStatus BeginStep(adios2::StepMode mode, const float timeout) override
    {
        return stream.begin_step(mode, timeout);
    }
    void EndStep() override
    {
        stream.end_step();
    }
    size_t CurrentStep() const override
    {
        return stream.current_step();
    }
    void PerformPuts() override
    {
        stream.perform_puts();
    }
    void PerformGets() override
    {
        stream.perform_gets();
    }
    void DoClose(const int transport) override
    {
        stream.close(transport);
    }
    adios2::MinVarInfo *MinBlocksInfo(const std::string &variable, const size_t step) const override
    {
        return stream.blocks(variable, step);
    }

#define ONESPACE_CALLS(T)                                                                          \
    void DoPutSync(adios2::Variable<T> variable, const T *values) override                         \
    {                                                                                              \
        stream.put(variable, values, adios2::Mode::Sync);                                          \
    }                                                                                              \
    void DoPutDeferred(adios2::Variable<T> variable, const T *values) override                     \
    {                                                                                              \
        stream.put(variable, values, adios2::Mode::Deferred);                                      \
    }                                                                                              \
    void DoGetSync(adios2::Variable<T> variable, T *values) override                               \
    {                                                                                              \
        stream.get(variable, values, adios2::Mode::Sync);                                          \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values) override                           \
    {                                                                                              \
        stream.get(variable, values, adios2::Mode::Deferred);                                      \
    }                                                                                              \
    void DoGetSync(adios2::Variable<T> variable, T *values, const adios2::core::Selection &which)  \
        override                                                                                   \
    {                                                                                              \
        stream.get_selected(variable, values, which, adios2::Mode::Sync);                          \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values,                                    \
                       const adios2::core::Selection &which) override                              \
    {                                                                                              \
        stream.get_selected(variable, values, which, adios2::Mode::Deferred);                      \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_CALLS)
#undef ONESPACE_CALLS

#define ONESPACE_SPAN(T)                                                                           \
    void DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &span,             \
               const bool initialize, const T &value) override                                     \
    {                                                                                              \
        stream.put_span(variable, hidden::core_of(span), initialize, value);                       \
    }
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(ONESPACE_SPAN)
#undef ONESPACE_SPAN

  private:
    Stream stream;
};

} // namespace
} // namespace onespace_adios

// ---- What ADIOS2 looks up ----

extern "C" {
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
__attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
EngineCreate(adios2::IO io, const std::string &name, const adios2::Mode mode, MPI_Comm comm)
{
    return new onespace_adios::Engine(io, name, mode, comm);
}
#else
__attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
EngineCreate(adios2::IO io, const std::string &name, const adios2::Mode mode)
{
    return new onespace_adios::Engine(io, name, mode);
}
#endif

__attribute__((visibility("default"))) void
EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
{
    delete engine;
}
}
