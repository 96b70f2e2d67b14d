// plugins/adios2/other.cpp: opens the engine to fall back to.
#include "other.hpp"

#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace onespace_adios
{

// ADIOS2 keeps the engines of an IO by name, and ours is about to have this one. "./NAME" and
// "/.//NAME" are other names for the same file.
static std::string same_file(const std::string &stream)
{
    return stream.front() == '/' ? "/." + stream : "./" + stream;
}

Other::Other(adios2::IO program_io, const std::string &stream, adios2::Mode mode,
             const Parameters &parameters, const Ranks &ranks)
    : io(program_io)
{
    const std::string ours = io.EngineType();
    io.SetEngine(parameters.fallback);
    try {
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
        if (ranks.comm != MPI_COMM_NULL)
            engine = io.Open(same_file(stream), mode, ranks.comm);
        else
#endif
            engine = io.Open(same_file(stream), mode);
    } catch (...) {
        io.SetEngine(ours);
        throw;
    }
    (void)ranks;
    io.SetEngine(ours);
}

template <class T> adios2::MinVarInfo *Other::blocks_of(const std::string &name, size_t step)
{
    adios2::Variable<T> variable = io.InquireVariable<T>(name);
    if (!variable)
        return nullptr;
    auto all = engine.BlocksInfo(variable, step);
    adios2::Dims shape = variable.Shape();
    numbers.clear();
    numbers.push_back(shape);
    numbers.reserve(1 + 2 * all.size());
    texts.clear();
    texts.reserve(all.size());
    characters.assign(all.size(), nullptr);
    values.assign(all.size(), {});
    auto info =
        new adios2::MinVarInfo((int)shape.size(), shape.empty() ? nullptr : numbers[0].data());
    info->Step = step;
    info->WasLocalValue = false;
    for (size_t i = 0; i < all.size(); i++) {
        const auto &one = all[i];
        info->IsValue = one.IsValue;
        info->Dims = (int)one.Count.size();
        adios2::MinBlockInfo block = {};
        block.WriterID = one.WriterID;
        block.BlockID = one.BlockID;
        numbers.push_back(one.Start);
        block.Start = numbers.back().data();
        numbers.push_back(one.Count);
        block.Count = numbers.back().data();
        if constexpr (std::is_same_v<T, std::string>) {
            texts.push_back(one.Value);
            characters[i] = texts.back().c_str();
            block.BufferP = &characters[i];
        } else {
            values[i].resize(sizeof(T));
            memcpy(values[i].data(), &one.Value, sizeof(T));
            block.BufferP = values[i].data();
            if constexpr (std::is_arithmetic_v<T>) {
                memcpy(&block.MinMax.MinUnion, &one.Min, sizeof(T));
                memcpy(&block.MinMax.MaxUnion, &one.Max, sizeof(T));
            }
        }
        info->BlocksInfo.push_back(block);
    }
    return info;
}

adios2::MinVarInfo *Other::blocks(const std::string &variable, size_t step)
{
    const std::string type = io.VariableType(variable);
#define ONESPACE_BLOCKS(T)                                                                         \
    if (type == adios2::GetType<T>())                                                              \
        return blocks_of<T>(variable, step);
    ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_BLOCKS)
#undef ONESPACE_BLOCKS
    return nullptr;
}

} // namespace onespace_adios
