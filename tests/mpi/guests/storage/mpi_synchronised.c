/* tests/mpi/guests/storage/mpi_synchronised.c: ranks that are killed while they store, put and
 * synchronise.
 *
 *   mpi_synchronised FILE JOURNAL LAYOUT BYTES ROUNDS [NAME=VALUE]...
 *
 * First each rank looks at its part: what the journal tells was synchronised has to be there. Then
 * ROUNDS times: it stores the number of the round into each word of its part's beginning, puts it
 * into BYTES of every rank's, its own too, synchronises, and tells the journal. Numbers go on from
 * job to job. LAYOUT: shared, one file; separate, one for each rank; mixed, one for
 * each even rank, while odd ones are in memory, where a job finds nothing. Prints "rank R: M
 * wrong". */
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "onespace/window.h"

#pragma weak onespace_window_sync_all

enum {
    OWN = 1024,     /* words that their rank stores into */
    PIECE = 801,    /* words of a small put */
    TOGETHER = 4,   /* each so many rounds all ranks synchronise at once */
    MOST_RANKS = 4, /* that the journal has room for */
    SHIFT = 24,     /* where a shared file's parts begin: pages belong to two ranks */
};

/* In memory that outlives a kill. Written by its rank, in the order of the program; read by the
 * test, and by all ranks of the next job. */
struct entry {
    _Atomic uint64_t pid;
    _Atomic uint64_t begun; /* the highest number that may be anywhere */
    _Atomic uint64_t told;  /* the highest that MPI_Win_sync has covered: what this rank wrote */
    _Atomic uint64_t everywhere; /* and onespace_window_sync_all: what all ranks wrote */
};

static struct entry *journal;
static int rank, ranks;
static size_t put_words;

/* A word tells its number and its place, and no mixture of two such words tells any. */
static const uint64_t factor = 0x9e3779b97f4a7c15, inverse = 0xf1de83e19937733d;

static uint64_t word_of(uint64_t number, uint64_t place)
{
    return (place << 32 | number) * factor;
}

/* -1: it is torn, or of another place. */
static int64_t number_of(uint64_t word, uint64_t place)
{
    uint64_t told = word * inverse;
    return word == 0 ? 0 : told >> 32 == place ? (int64_t)(told & UINT32_MAX) : -1;
}

/* Of the words of a part: first its own, then those that each rank puts. */
static size_t first_of(int writer)
{
    return OWN + (size_t)writer * put_words;
}

static uint64_t place_of(int part, size_t index)
{
    return (uint64_t)part * first_of(ranks) + index + 1;
}

static uint64_t everywhere(void)
{
    uint64_t most = 0;
    for (int i = 0; i < ranks; i++)
        most = journal[i].everywhere > most ? journal[i].everywhere : most;
    return most;
}

/* How many of these words their writer has not written as it told. */
static int look_at(const uint64_t *part, size_t first, size_t count, int writer, int64_t least)
{
    int wrong = 0;
    int64_t told = (int64_t)journal[writer].told, begun = (int64_t)journal[writer].begun;
    least = told > least ? told : least;
    for (size_t i = first; i < first + count; i++) {
        int64_t number = number_of(part[i], place_of(rank, i));
        if ((number < least || number > begun) && wrong++ < 3)
            printf("rank %d: word %zu, of rank %d, is %lld, not %lld to %lld\n", rank, i, writer,
                   (long long)number, (long long)least, (long long)begun);
    }
    return wrong;
}

static int is_in_memory(const char *layout)
{
    return strcmp(layout, "mixed") == 0 && rank % 2;
}

static int look(const uint64_t *part)
{
    int64_t least = (int64_t)everywhere();
    int wrong = look_at(part, 0, OWN, rank, least);
    for (int writer = 0; writer < ranks; writer++)
        wrong += look_at(part, first_of(writer), put_words, writer, least);
    return wrong;
}

static void put(uint64_t *words, uint64_t number, int to, MPI_Win window)
{
    size_t first = first_of(rank), piece = number % 2 ? put_words : PIECE;
    for (size_t i = 0; i < put_words; i++)
        words[i] = word_of(number, place_of(to, first + i));
    for (size_t at = 0; at < put_words; at += piece) {
        int count = (int)(put_words - at < piece ? put_words - at : piece);
        MPI_Put(words + at, count, MPI_UINT64_T, to, (MPI_Aint)(first + at), count, MPI_UINT64_T,
                window);
    }
    MPI_Win_flush(to, window); /* the words are used again */
}

static int do_round(uint64_t *part, uint64_t *words, uint64_t number, MPI_Win window)
{
    struct entry *mine = &journal[rank];
    mine->begun = number;
    for (size_t i = 0; i < OWN; i++)
        part[i] = word_of(number, place_of(rank, i));
    for (int to = 0; to < ranks; to++)
        put(words, number, to, window);
    int is_together = number % TOGETHER == 0;
    int result = is_together ? onespace_window_sync_all(window) : MPI_Win_sync(window);
    if (result != MPI_SUCCESS)
        return result;
    mine->told = number;
    if (is_together)
        mine->everywhere = number;
    usleep(
        (useconds_t)(number * 7919 % 4000)); /* half of all kills come when nothing is under way */
    return result;
}

static void open_journal(const char *path)
{
    size_t size = MOST_RANKS * sizeof(struct entry);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (ranks > MOST_RANKS || fd < 0 || ftruncate(fd, (off_t)size) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    journal = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
}

static MPI_Win open_window(const char *file, const char *layout, char **pairs, uint64_t **part)
{
    char path[4096], offset[32];
    int is_shared = strcmp(layout, "shared") == 0;
    size_t size = first_of(ranks) * sizeof(uint64_t);
    MPI_Info info;
    MPI_Win window;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", is_in_memory(layout) ? "memory" : "storage");
    snprintf(path, sizeof(path), is_shared ? "%s" : "%s.%d", file, rank);
    MPI_Info_set(info, "storage_alloc_filename", path);
    snprintf(offset, sizeof(offset), "%zu", is_shared ? SHIFT + (size_t)rank * size : 0);
    MPI_Info_set(info, "storage_alloc_offset", offset);
    for (; *pairs; pairs++) {
        char *sign = strchr(*pairs, '=');
        *sign = 0;
        MPI_Info_set(info, *pairs, sign + 1);
    }
    MPI_Win_allocate((MPI_Aint)size, sizeof(uint64_t), info, MPI_COMM_WORLD, part, &window);
    MPI_Info_free(&info);
    return window;
}

int main(int argc, char **argv)
{
    uint64_t *part, begun, number;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    put_words = (size_t)atol(argv[4]) / sizeof(uint64_t);
    open_journal(argv[2]);
    MPI_Win window = open_window(argv[1], argv[3], argv + 6, &part);
    int wrong = is_in_memory(argv[3]) ? 0 : look(part), any_wrong = 0;
    begun = journal[rank].begun;
    MPI_Allreduce(&begun, &number, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    uint64_t last = any_wrong ? number : number + (uint64_t)atol(argv[5]);
    uint64_t *words = malloc(put_words * sizeof(*words));
    MPI_Win_lock_all(0, window);
    journal[rank].pid = (uint64_t)getpid();
    while (number < last)
        if (do_round(part, words, ++number, window) != MPI_SUCCESS)
            wrong++;
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    printf("rank %d: %d wrong\n", rank, wrong);
    free(words);
    MPI_Finalize();
    return wrong != 0;
}
