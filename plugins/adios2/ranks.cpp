// plugins/adios2/ranks.cpp: the environment of launchers.
#include "ranks.hpp"

#include <cstdlib>

namespace onespace_adios
{
namespace
{

struct Launcher {
    const char *rank, *size, *on_node;
};

constexpr Launcher launchers[] = {
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS", nullptr},
    {"ONESPACE_TASK_ID", "ONESPACE_NTASKS", nullptr},
};

} // namespace

Ranks ranks_of_launcher()
{
    for (const Launcher &launcher : launchers) {
        const char *rank = getenv(launcher.rank), *size = getenv(launcher.size);
        if (!rank || !size)
            continue;
        Ranks ranks;
        ranks.rank = (unsigned)atoi(rank);
        ranks.size = (unsigned)atoi(size);
        const char *on_node = launcher.on_node ? getenv(launcher.on_node) : nullptr;
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
    int number, size, here;
    MPI_Comm node;
    MPI_Comm_dup(comm, &ranks.comm);
    MPI_Comm_rank(comm, &number);
    MPI_Comm_size(comm, &size);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    ranks.rank = (unsigned)number;
    ranks.size = (unsigned)size;
    ranks.on_one_node = here == size;
    return ranks;
}
#endif

uint64_t Ranks::largest(uint64_t value) const
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    if (comm != MPI_COMM_NULL)
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_MAX, comm);
#endif
    return value;
}

void Ranks::release()
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
#endif
}

bool Ranks::agrees() const
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    return size == 1 || comm != MPI_COMM_NULL;
#else
    return size == 1;
#endif
}

} // namespace onespace_adios
