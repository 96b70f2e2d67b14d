/* src/storage/file/direct_io.c: direct I/O with several requests in flight. */
#include "storage/file/file.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "onespace/sync/copy.h"

/* By experiment: more pieces are faster on a disk, larger ones on a device in memory. The buffer is
 * a multiple of the huge page size: with small pages a device takes far less in one request. */
enum { PIECE_BYTES = 1 << 20, PIECES = 4 };

struct request {
    struct iocb control;
    int is_in_flight;
    int64_t result; /* bytes; negative: an error */
};

struct direct_io {
    char *buffer;          /* for unaligned memory: PIECES pieces */
    int is_pipelined;      /* prepare_pipeline() was called */
    aio_context_t context; /* 0: none yet, or not available */
    int is_lost;           /* the outcome of requests in flight is unknown: not used again */
    struct request requests[PIECES];
};

/* Destroying a context takes the kernel tens of milliseconds, so this process caches one; 0: none.
 * Any thread exchanges it atomically. Relaxed: it guards no data. In a child of fork it is invalid,
 * and io_submit fails. */
static _Atomic aio_context_t cached_context;

static aio_context_t get_context(void)
{
    aio_context_t context = atomic_exchange_explicit(&cached_context, 0, memory_order_relaxed);
    if (context == 0 && syscall(SYS_io_setup, PIECES, &context) < 0)
        return 0;
    return context;
}

static void destroy_context(aio_context_t context)
{
    if (context)
        (void)syscall(SYS_io_destroy, context); /* waits for requests in flight */
}

static void cache_context(aio_context_t context)
{
    destroy_context(atomic_exchange_explicit(&cached_context, context, memory_order_relaxed));
}

__attribute__((destructor)) void direct_io_free_cached(void)
{
    cache_context(0);
}

struct direct_io *direct_io_new(void)
{
    struct direct_io *io = calloc(1, sizeof(*io));
    if (!io)
        return NULL;
    io->buffer = mmap(NULL, PIECES * PIECE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (io->buffer == MAP_FAILED) {
        free(io);
        return NULL;
    }
    return io;
}

void direct_io_free(struct direct_io *io)
{
    if (!io)
        return;
    if (io->is_lost)
        destroy_context(io->context);
    else if (io->context)
        cache_context(io->context);
    munmap(io->buffer, PIECES * PIECE_BYTES);
    free(io);
}

static struct request *piece_request(struct direct_io *io, size_t piece)
{
    return &io->requests[piece % PIECES];
}

static char *piece_buffer(struct direct_io *io, size_t piece)
{
    return io->buffer + piece % PIECES * PIECE_BYTES;
}

/* Transfers synchronously when the request cannot be submitted. */
static void submit(struct direct_io *io, size_t piece, struct iocb control)
{
    struct request *request = piece_request(io, piece);
    struct iocb *submitted = &request->control;
    control.aio_data = piece % PIECES;
    *submitted = control;
    request->is_in_flight = io->context && syscall(SYS_io_submit, io->context, 1, &submitted) == 1;
    if (request->is_in_flight)
        return;
    int fd = (int)control.aio_fildes;
    void *memory = (void *)(uintptr_t)control.aio_buf;
    if (control.aio_lio_opcode == IOCB_CMD_PREAD)
        request->result = pread(fd, memory, control.aio_nbytes, control.aio_offset);
    else
        request->result = pwrite(fd, memory, control.aio_nbytes, control.aio_offset);
}

/* Bytes; 0 after an error. */
static size_t await(struct direct_io *io, size_t piece)
{
    struct request *request = piece_request(io, piece);
    while (request->is_in_flight && !io->is_lost) {
        struct io_event events[PIECES];
        long count = syscall(SYS_io_getevents, io->context, 1, PIECES, events, NULL);
        for (long i = 0; i < count; i++) {
            struct request *ended = &io->requests[events[i].data];
            ended->is_in_flight = 0;
            ended->result = events[i].res;
        }
        io->is_lost = count < 0 && errno != EINTR;
    }
    return request->is_in_flight || request->result < 0 ? 0 : (size_t)request->result;
}

static size_t piece_size(const struct direct_transfer *transfer, size_t piece)
{
    size_t left = transfer->size - piece * PIECE_BYTES;
    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

static int needs_buffer(const struct direct_transfer *transfer)
{
    const char *memory = transfer->to ? transfer->to : transfer->from;
    return (uintptr_t)memory % DIRECT_IO_ALIGN != 0;
}

static void begin_piece(struct direct_io *io, const struct direct_transfer *transfer, size_t piece)
{
    size_t offset = piece * PIECE_BYTES, size = piece_size(transfer, piece);
    const char *memory = (transfer->to ? transfer->to : transfer->from) + offset;
    if (needs_buffer(transfer)) {
        memory = piece_buffer(io, piece);
        if (transfer->from)
            onespace_copy(piece_buffer(io, piece), transfer->from + offset, size);
    }
    submit(io, piece,
           (struct iocb){
               .aio_lio_opcode = transfer->to ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE,
               .aio_fildes = (uint32_t)transfer->fd,
               .aio_buf = (uintptr_t)memory,
               .aio_nbytes = size,
               .aio_offset = (int64_t)(transfer->at + offset),
           });
}

static size_t end_piece(struct direct_io *io, const struct direct_transfer *transfer, size_t piece)
{
    size_t got = await(io, piece);
    if (transfer->to && needs_buffer(transfer))
        onespace_copy(transfer->to + piece * PIECE_BYTES, piece_buffer(io, piece), got);
    return got;
}

/* Only for transfers of several pieces: with fragmented memory the kernel may search milliseconds
 * for huge pages, longer than a small transfer takes. */
static void prepare_pipeline(struct direct_io *io)
{
    io->is_pipelined = 1;
    (void)madvise(io->buffer, PIECES * PIECE_BYTES, MADV_HUGEPAGE);
    io->context = get_context();
}

/* After a short transfer no further piece begins; those in flight are waited for. */
size_t direct_io_run(struct direct_io *io, const struct direct_transfer *transfer)
{
    size_t count = (transfer->size + PIECE_BYTES - 1) / PIECE_BYTES, begun = 0, ended = 0, done = 0;
    int is_whole = !io->is_lost;
    if (count > 1 && !io->is_pipelined)
        prepare_pipeline(io);
    while (ended < begun || (is_whole && begun < count)) {
        while (is_whole && begun < count && begun - ended < PIECES)
            begin_piece(io, transfer, begun++);
        size_t got = end_piece(io, transfer, ended);
        if (is_whole)
            done += got;
        is_whole = is_whole && got == piece_size(transfer, ended);
        ended++;
    }
    return done;
}
