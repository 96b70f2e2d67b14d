/* A shared window in a program that uses a session and never calls MPI_Init. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Win window;
    MPI_Aint size;
    int rank, ranks, unit, wrong = 0;
    long *base, *next, one = 1, old = -1;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "windows", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int round = 0; round < 3; round++) {
        MPI_Win_allocate_shared(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &base,
                                &window);
        MPI_Win_shared_query(window, (rank + 1) % ranks, &size, &unit, &next);
        wrong += rank + 1 < ranks && next != base + 2; /* one memory */
        base[0] = rank;
        MPI_Win_fence(0, window);
        wrong += next[0] != (rank + 1) % ranks;
        MPI_Win_lock_all(0, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, window);
        MPI_Win_unlock_all(window);
        wrong += old < 0 || old >= ranks;
        MPI_Win_free(&window);
    }
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    printf("rank %d: %d wrong\n", rank, wrong);
    return wrong != 0;
}
