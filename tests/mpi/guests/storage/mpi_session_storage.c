/* mpi_session_storage.c DIRECTORY: windows on storage, and memory, in a program that uses a session
 * and never calls MPI_Init. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../mpi_check.h"

enum { SIZE = 300000 };

static char path[4096];

static MPI_Info hints(const char *directory, const char *name, int number, const char *factor)
{
    MPI_Info info;
    snprintf(path, sizeof(path), "%s/%s%d", directory, name, number);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", "storage");
    MPI_Info_set(info, "storage_alloc_filename", path);
    MPI_Info_set(info, "storage_alloc_factor", (char *)factor);
    return info;
}

static int file_holds(const char *file, const char *data)
{
    char *found = malloc(SIZE);
    int fd = open(file, O_RDONLY);
    int holds = fd >= 0 && pread(fd, found, SIZE, 0) == SIZE && memcmp(found, data, SIZE) == 0;
    close(fd);
    free(found);
    return holds;
}

static void use_window(MPI_Comm comm, const char *directory)
{
    char *base, *data = malloc(SIZE);
    MPI_Win window;
    MPI_Info info = hints(directory, "window", rank, "1");
    memset(data, 'a' + rank, SIZE);
    CHECK(MPI_Win_allocate(SIZE, 1, info, comm, &base, &window) == MPI_SUCCESS);
    MPI_Info_free(&info);
    MPI_Win_fence(0, window);
    MPI_Put(data, SIZE, MPI_CHAR, (rank + 1) % ranks, 0, SIZE, MPI_CHAR, window);
    MPI_Win_fence(0, window);
    memset(data, 'a' + (rank + ranks - 1) % ranks, SIZE);
    CHECK(memcmp(base, data, SIZE) == 0);
    CHECK(MPI_Win_sync(window) == MPI_SUCCESS);
    CHECK(file_holds(path, data));
    base[5] = data[5] = 'z';
    MPI_Win_free(&window);
    CHECK(file_holds(path, data));
    free(data);
}

static void refuse_window(MPI_Comm comm, const char *directory)
{
    char *base;
    MPI_Win window;
    MPI_Info info = hints(directory, "refused", rank, "7");
    CHECK(MPI_Win_allocate(SIZE, 1, info, comm, &base, &window) != MPI_SUCCESS);
    MPI_Info_free(&info);
}

static void use_memory(const char *directory)
{
    char *base, *data = malloc(SIZE);
    MPI_Info info = hints(directory, "memory", rank, "1");
    memset(data, 'm', SIZE);
    CHECK(MPI_Alloc_mem(SIZE, info, &base) == MPI_SUCCESS);
    MPI_Info_free(&info);
    memcpy(base, data, SIZE);
    CHECK(MPI_Free_mem(base) == MPI_SUCCESS);
    CHECK(file_holds(path, data));
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    const char *directory = argv[argc - 1];
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "storage", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    use_window(comm, directory);
    refuse_window(comm, directory);
    use_memory(directory);
    use_window(comm, directory);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    printf("rank %d: %d wrong\n", rank, wrong);
    return wrong != 0;
}
