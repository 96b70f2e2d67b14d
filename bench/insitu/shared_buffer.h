/* bench/insitu/shared_buffer.h: the baseline: one buffer in POSIX shared memory, into which the
 * simulation copies a step and out of which the analysis copies it, as in the paper's section 7.4
 * (SmartBlock). Two semaphores pass the buffer back and forth. */
#ifndef BENCH_SHARED_BUFFER_H
#define BENCH_SHARED_BUFFER_H

#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first steps go to both analyses; each prints its result for them. */
enum { CHECKED_STEPS = 20 };

struct shared_buffer {
    sem_t is_free, is_full;
    int ended;
    volatile int is_mapped; /* by the analysis, too: the name can be unlinked */
    int64_t step;
    int64_t atoms;
    double low[3], high[3];
    double positions[]; /* then the tags, as int32_t */
};

static inline size_t buffer_bytes(int64_t atoms)
{
    return sizeof(struct shared_buffer) + (size_t)atoms * (3 * sizeof(double) + sizeof(int32_t));
}

static inline int32_t *buffer_tags(struct shared_buffer *buffer)
{
    return (int32_t *)(buffer->positions + 3 * buffer->atoms);
}

/* Maps the named segment with room for `atoms` atoms; creates it if asked to. NULL: see errno. */
static inline struct shared_buffer *buffer_map(const char *name, int64_t atoms, int make)
{
    int fd = shm_open(name, O_RDWR | (make ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0)
        return NULL;
    struct shared_buffer *buffer = (struct shared_buffer *)MAP_FAILED;
    if (!make || ftruncate(fd, (off_t)buffer_bytes(atoms)) == 0)
        buffer = (struct shared_buffer *)mmap(NULL, buffer_bytes(atoms), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (buffer == (struct shared_buffer *)MAP_FAILED)
        return NULL;
    if (make && (sem_init(&buffer->is_free, 1, 1) != 0 || sem_init(&buffer->is_full, 1, 0) != 0))
        return NULL;
    return buffer;
}

#endif
