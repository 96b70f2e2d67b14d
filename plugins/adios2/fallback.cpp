// plugins/adios2/fallback.cpp: opens the fallback engine; writes, finds and removes contact files.
#include "fallback.hpp"

#include <onespace.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>

namespace onespace_adios
{

// ---- The fallback engine ----

// ADIOS2 keeps the engines of an IO by name, and this engine is registered under the opened name.
// "./NAME" and "/.//NAME" are other names of the same file.
static std::string alias(const std::string &stream)
{
    return stream.front() == '/' ? "/." + stream : "./" + stream;
}

FallbackEngine::FallbackEngine(adios2::IO program_io, const std::string &stream, adios2::Mode mode,
                               const Parameters &parameters, [[maybe_unused]] const Ranks &ranks)
    : io(program_io)
{
    const std::string plugin_type = io.EngineType();
    io.SetEngine(parameters.fallback);
    try {
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
        if (ranks.comm)
            engine = io.Open(alias(stream), mode, *ranks.comm);
        else
#endif
            engine = io.Open(alias(stream), mode);
    } catch (...) {
        io.SetEngine(plugin_type);
        throw;
    }
    io.SetEngine(plugin_type);
}

template <class T>
adios2::MinVarInfo *FallbackEngine::blocks_of_type(const std::string &name, size_t step)
{
    adios2::Variable<T> variable = io.InquireVariable<T>(name);
    if (!variable)
        return nullptr;
    auto all = engine.BlocksInfo(variable, step);
    adios2::Dims shape = variable.Shape();
    dims.clear();
    dims.push_back(shape);
    dims.reserve(1 + 2 * all.size());
    texts.clear();
    texts.reserve(all.size());
    text_addresses.assign(all.size(), nullptr);
    values.assign(all.size(), {});
    auto info = new adios2::MinVarInfo((int)shape.size(), shape.empty() ? nullptr : dims[0].data());
    info->Step = step;
    info->WasLocalValue = false;
    for (size_t i = 0; i < all.size(); i++) {
        const auto &from = all[i];
        info->IsValue = from.IsValue;
        info->Dims = (int)from.Count.size();
        adios2::MinBlockInfo block = {};
        block.WriterID = from.WriterID;
        block.BlockID = from.BlockID;
        dims.push_back(from.Start);
        block.Start = dims.back().data();
        dims.push_back(from.Count);
        block.Count = dims.back().data();
        if constexpr (std::is_same_v<T, std::string>) {
            texts.push_back(from.Value);
            text_addresses[i] = texts.back().c_str();
            block.BufferP = &text_addresses[i];
        } else {
            values[i].resize(sizeof(T));
            memcpy(values[i].data(), &from.Value, sizeof(T));
            block.BufferP = values[i].data();
            if constexpr (std::is_arithmetic_v<T>) {
                memcpy(&block.MinMax.MinUnion, &from.Min, sizeof(T));
                memcpy(&block.MinMax.MaxUnion, &from.Max, sizeof(T));
            }
        }
        info->BlocksInfo.push_back(block);
    }
    return info;
}

adios2::MinVarInfo *FallbackEngine::blocks(const std::string &variable, size_t step)
{
    const std::string type = io.VariableType(variable);
#define ONESPACE_BLOCKS(T)                                                                         \
    if (type == adios2::GetType<T>())                                                              \
        return blocks_of_type<T>(variable, step);
    ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_BLOCKS)
#undef ONESPACE_BLOCKS
    return nullptr;
}

// ---- Contact files ----

namespace
{

std::string node_name()
{
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    return name;
}

// Creates a file under a name that another user can guess. An existing file is removed, never
// followed or overwritten. Returns -1 on failure.
int create_new(const std::string &path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path.c_str(), flags, 0666);
    if (fd < 0 && errno == EEXIST && unlink(path.c_str()) == 0)
        fd = open(path.c_str(), flags, 0666);
    return fd;
}

// The beginning of a regular file, or "". Another user may have created anything under the name.
std::string read_beginning(const std::string &path)
{
    char text[512];
    struct stat status;
    ssize_t size = -1;
    int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return "";
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        size = read(fd, text, sizeof(text));
    close(fd);
    return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
}

bool is_host_name(const std::string &host)
{
    for (char c : host)
        if (!isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.' && c != '_')
            return false;
    return true;
}

} // namespace

// Writes a temporary file and renames it, so that readers never see half of it.
ContactFile::ContactFile(const std::string &stream) : path(stream + ".onespace")
{
    std::string temporary = path + "." + std::to_string(getpid());
    std::string line =
        node_name() + ' ' + std::to_string(getpid()) + ' ' + std::to_string(onespace_pid(0)) + '\n';
    int fd = create_new(temporary);
    bool is_written = fd >= 0 && write(fd, line.data(), line.size()) == ssize_t(line.size());
    if (fd >= 0)
        close(fd);
    if (!is_written || rename(temporary.c_str(), path.c_str()) != 0) {
        if (fd >= 0)
            unlink(temporary.c_str());
        path.clear();
    }
}

ContactFile::~ContactFile()
{
    if (!path.empty())
        unlink(path.c_str());
}

bool find_contact(const std::string &stream, std::string *advice)
{
    std::istringstream file(read_beginning(stream + ".onespace"));
    std::string host;
    long writer = 0, root = 0;
    if (!(file >> host >> writer >> root) || writer <= 0 || !is_host_name(host))
        return false;
    if (host == node_name() && kill((pid_t)writer, 0) != 0 && errno == ESRCH)
        return false; // the writer was killed
    *advice = "process " + std::to_string(writer) + " on " + host +
              " writes it in the space of process " + std::to_string(root) +
              (host == node_name() ? ": start the reader in that space, too"
                                   : ": start the reader on that node, because a space does not "
                                     "span nodes, or start the writer outside a space");
    return true;
}

bool find_sst(const std::string &stream)
{
    struct stat status;
    return stat((stream + ".sst").c_str(), &status) == 0;
}

} // namespace onespace_adios
