/* mpi_storage DIRECTORY CASE...: properties of MPI windows on storage, checked on all ranks.
 * ONE_THREAD in the environment: without MPI_THREAD_MULTIPLE. */
#include <linux/capability.h>
#include <sys/prctl.h>

#include "storage/written.h"
#include "mpi/storage/guests/storage_window.h"

#include "mpi_storage_files.h"
#include "mpi_storage_calls.h"
#include "mpi_storage_errors.h"
#include "mpi_storage_delayed.h"
#include "mpi_storage_memory.h"
#include "mpi_storage_intra_node.h"
#include "mpi_storage_mixed.h"

/* As containers are that hide their processes: no other process may open this one's descriptors. */
static void hide(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    CHECK(syscall(SYS_capget, &header, sets) == 0);
    sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    CHECK(syscall(SYS_capset, &header, sets) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0);
}

int main(int argc, char **argv)
{
    const char *first = argc > 2 ? argv[2] : "";
    (void)mpi_begin_threads(&argc, &argv,
                            getenv("ONE_THREAD") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (strcmp(first, "parts_are_out_of_reach") == 0 ||
        (strcmp(first, "one_part_is_out_of_reach") == 0 && rank == 1))
        hide();
    directory = argv[1];
    run_cases(argv + 2);
    return mpi_end();
}
