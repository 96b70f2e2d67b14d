// plugins/adios2/plugin_before_2_12.cpp: the engine `onespace` for ADIOS2 2.10 and 2.11, Debian
// 13's among them. There a plug-in is an engine by ADIOS2's private classes, whose headers are
// installed, and ADIOS2's own engine forwards less to it: what it does not is hooked (hidden.hpp).
#include "stream.hpp"

#include <adios2/core/Variable.h>
#include <adios2/engine/plugin/PluginEngineInterface.h>
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
#include <adios2/helper/adiosCommMPI.h>
#endif

#include <cstring>
#include <typeinfo>

namespace onespace_adios
{
namespace
{

// A handle of the public interface is a pointer to the private object.
template <class Handle, class Core> Handle handle_of(Core &core)
{
    static_assert(sizeof(Handle) == sizeof(void *), "a handle is a pointer");
    Handle handle;
    void *address = &core;
    memcpy(static_cast<void *>(&handle), &address, sizeof(address));
    return handle;
}

Ranks ranks_from([[maybe_unused]] const adios2::helper::Comm &comm)
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    return ranks_of(adios2::helper::CommAsMPI(comm));
#else
    return {};
#endif
}

// ---- Hooks: the first argument is ADIOS2's engine ----

size_t current_step(const void *engine)
{
    hidden::Hooks *hooks = hidden::Front::hooks_of(engine);
    return hooks ? hooks->current_step() : 0;
}

adios2::MinVarInfo *blocks(const void *engine, const adios2::core::VariableBase &variable,
                           const size_t step)
{
    hidden::Hooks *hooks = hidden::Front::hooks_of(engine);
    return hooks ? hooks->blocks(variable.m_Name, step) : nullptr;
}

// ADIOS2 2.10 keeps the spans of a variable by the number of its blocks, which an engine of its own
// would have raised: without that the second span of a step would be the first.
template <class T> void put_one_more(Stream &stream, adios2::core::Variable<T> &variable)
{
    variable.m_BlocksInfo.emplace_back();
    stream.call_at_end([&variable] { variable.m_BlocksInfo.clear(); });
}

// Of every type: the compiler has made one function of what ADIOS2 has for each.
void put_span(const void *engine, adios2::core::VariableBase &variable, void *span,
              const bool initialize, const void *value)
{
    hidden::Hooks *hooks = hidden::Front::hooks_of(engine);
    if (!hooks)
        return;
    Stream &stream = *static_cast<Stream *>(hooks->stream);
#define ONESPACE_SPAN(T)                                                                           \
    if (variable.m_Type == adios2::helper::GetDataType<T>()) {                                     \
        stream.put_span(handle_of<adios2::Variable<T>>(variable), span, initialize,                \
                        *static_cast<const T *>(value));                                           \
        put_one_more(stream, static_cast<adios2::core::Variable<T> &>(variable));                  \
    }
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(ONESPACE_SPAN)
#undef ONESPACE_SPAN
}

void set_hooks()
{
    using hidden::Front;
    const std::string engine = "_ZN6adios24core6Engine";
    const std::string constant = "_ZNK6adios24core6Engine";
    Front::replace(constant + "11CurrentStepEv", reinterpret_cast<void *>(current_step));
    Front::replace(constant + "13MinBlocksInfoERKNS0_12VariableBaseEm",
                   reinterpret_cast<void *>(blocks));
#define ONESPACE_HOOK(T)                                                                           \
    Front::replace(engine + "5DoPutERNS0_8VariableI" + typeid(T).name() + "EERNS0_4SpanI" +        \
                       typeid(T).name() + "EEbRK" + typeid(T).name(),                              \
                   reinterpret_cast<void *>(put_span));
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(ONESPACE_HOOK)
#undef ONESPACE_HOOK
}

// ---- The plug-in's engine ----

class Engine : public adios2::plugin::PluginEngineInterface
{
  public:
    Engine(adios2::core::IO &io, const std::string &label, adios2::Mode mode,
           adios2::helper::Comm comm)
        : PluginEngineInterface(io, label, mode, comm.Duplicate()),
          stream((set_hooks(), handle_of<adios2::IO>(io)), mode, ranks_from(comm))
    {
        m_IsOpen = true; // for Close
    }
    ~Engine() override
    {
        m_IsOpen = false; // ADIOS2's engine has said so
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, const float timeout) override
    {
        return stream.begin_step(mode, timeout);
    }
    size_t CurrentStep() const override
    {
        return stream.current_step();
    }
    void EndStep() override
    {
        stream.end_step();
    }
    void PerformPuts() override
    {
        stream.perform_puts();
    }
    void PerformGets() override
    {
        stream.perform_gets();
    }

  protected:
    void DoClose(const int transport) override
    {
        stream.close(transport);
    }

#define ONESPACE_CALLS(T)                                                                          \
    void DoPutSync(adios2::core::Variable<T> &variable, const T *values) override                  \
    {                                                                                              \
        stream.put(handle_of<adios2::Variable<T>>(variable), values, adios2::Mode::Sync);          \
    }                                                                                              \
    void DoPutDeferred(adios2::core::Variable<T> &variable, const T *values) override              \
    {                                                                                              \
        stream.put(handle_of<adios2::Variable<T>>(variable), values, adios2::Mode::Deferred);      \
    }                                                                                              \
    void DoGetSync(adios2::core::Variable<T> &variable, T *values) override                        \
    {                                                                                              \
        stream.get(handle_of<adios2::Variable<T>>(variable), values, adios2::Mode::Sync);          \
    }                                                                                              \
    void DoGetDeferred(adios2::core::Variable<T> &variable, T *values) override                    \
    {                                                                                              \
        stream.get(handle_of<adios2::Variable<T>>(variable), values, adios2::Mode::Deferred);      \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_CALLS)
#undef ONESPACE_CALLS

  private:
    Stream stream;
};

} // namespace
} // namespace onespace_adios

// ---- What ADIOS2 looks up ----

extern "C" {
__attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
EngineCreate(adios2::core::IO &io, const std::string &name, const adios2::Mode mode,
             adios2::helper::Comm comm)
{
    return new onespace_adios::Engine(io, name, mode, std::move(comm));
}

__attribute__((visibility("default"))) void
EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
{
    delete engine;
}
}
