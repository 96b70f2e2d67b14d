/* cmd/run/singletons.c: tells who starts several tasks of an MPI program by hand which command was
 * meant. Each such task is an MPI job of its own, rank 0 of 1: the MPI library cannot know better,
 * and most programs do not say so. Once, by the root, before the tasks start. */
#include "cmd/run/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "spawn/spawn.h"

/* C's names, and those that Fortran compilers make of mpif.h's, mpi's and mpi_f08's. */
static const char *const initialise[] = {"MPI_Init",
                                         "MPI_Init_thread",
                                         "MPI_Session_init",
                                         "mpi_init_",
                                         "mpi_init_thread_",
                                         "mpi_session_init_",
                                         "mpi_init_f08_",
                                         "mpi_init_thread_f08_",
                                         "mpi_init_f08ts_",
                                         "mpi_init_thread_f08ts_",
                                         NULL};

static int calls_mpi(const struct run_segment *segment)
{
    static struct elf_program program;
    if (resolve_program(AT_FDCWD, segment->argv[0], segment->argv, getenv("PATH"), &program, NULL) <
        0)
        return 0; /* the spawn will say why */
    int fd = open(program.path, O_RDONLY | O_CLOEXEC);
    int result = fd >= 0 && elf_imports(fd, initialise) == 1;
    if (fd >= 0)
        close(fd);
    elf_program_free(&program);
    return result;
}

void run_say_singletons(const struct run_options *run)
{
    int count = 0, parts = 0, is_mpi[RUN_SEGMENTS_MAX];
    const char *first = NULL;
    for (int s = 0; s < run->segment_count; s++) {
        is_mpi[s] = calls_mpi(&run->segments[s]);
        if (is_mpi[s] && !first)
            first = run->segments[s].argv[0];
        count += is_mpi[s] ? run->segments[s].count : 0;
    }
    if (count < 2)
        return;
    fprintf(
        stderr,
        "onespace run: %s calls MPI_Init, but without a launcher each of the %d tasks is rank 0 "
        "of 1: for one job of %d ranks run `onespace mpiexec",
        first, count, count);
    for (int s = 0; s < run->segment_count; s++)
        if (is_mpi[s])
            fprintf(stderr, "%s -n %d %s%s", parts++ ? " :" : "", run->segments[s].count,
                    run->segments[s].argv[0], run->segments[s].argv[1] ? " ..." : "");
    fprintf(stderr, "`\n");
}
