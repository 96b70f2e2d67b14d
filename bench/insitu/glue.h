/* bench/insitu/glue.h: the baseline: one buffer in POSIX shared memory, into which the simulation
 * copies a step and out of which the analysis copies it, as in the paper's section 7.4
 * (SmartBlock). Two semaphores pass the buffer back and forth. */
#ifndef BENCH_GLUE_H
#define BENCH_GLUE_H

#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first steps go to both analyses; each prints its result for them. */
enum { CheckedSteps = 20 };

struct glue {
    sem_t is_free, is_full;
    int ended;
    volatile int is_mapped; /* by the analysis, too: the name can be unlinked */
    int64_t step;
    int64_t atoms;
    double low[3], high[3];
    double positions[]; /* then the tags, as int32_t */
};

static inline size_t glue_bytes(int64_t atoms)
{
    return sizeof(struct glue) + (size_t)atoms * (3 * sizeof(double) + sizeof(int32_t));
}

static inline int32_t *glue_tags(struct glue *glue)
{
    return (int32_t *)(glue->positions + 3 * glue->atoms);
}

/* Maps the named segment with room for `atoms` atoms; creates it if asked to. NULL: see errno. */
static inline struct glue *glue_map(const char *name, int64_t atoms, int make)
{
    int fd = shm_open(name, O_RDWR | (make ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0)
        return NULL;
    struct glue *glue = (struct glue *)MAP_FAILED;
    if (!make || ftruncate(fd, (off_t)glue_bytes(atoms)) == 0)
        glue = (struct glue *)mmap(NULL, glue_bytes(atoms), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (glue == (struct glue *)MAP_FAILED)
        return NULL;
    if (make && (sem_init(&glue->is_free, 1, 1) != 0 || sem_init(&glue->is_full, 1, 0) != 0))
        return NULL;
    return glue;
}

#endif
