/* mpi_storage_killed: ranks that are killed while they store, put and synchronise.
 *
 *   mpi_storage_killed FILE JOURNAL LAYOUT BYTES ROUNDS [NAME=VALUE]...
 *
 * First each rank checks its part: data that was synchronised according to the journal has to be
 * there. Then ROUNDS times: it stores the number of the round into each word of its part's
 * beginning, puts it into BYTES of every rank's, its own too, synchronises, and records that in the
 * journal. Numbers continue from job to job. LAYOUT: shared, one file; separate, one for each rank;
 * mixed, one for each even rank, while odd ones are in memory, where a job finds nothing. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"
#include "onespace/window.h"

#pragma weak onespace_window_sync_all

enum {
    OWN_WORDS = 1024,      /* words that their rank stores into */
    SMALL_PUT_WORDS = 801, /* words of a small put */
    SYNC_ALL_ROUNDS = 4,   /* each so many rounds all ranks synchronise at once */
    JOURNAL_RANKS = 4,     /* that the journal has room for */
    SHARED_BEGIN = 24,     /* where a shared file's parts begin: pages belong to two ranks */
};

/* In memory that outlives a kill. Written by its rank, in the order of the program; read by the
 * test, and by all ranks of the next job. */
struct entry {
    _Atomic uint64_t pid;
    _Atomic uint64_t begun;      /* the highest number that may be anywhere */
    _Atomic uint64_t synced;     /* the highest that MPI_Win_sync has covered: this rank's writes */
    _Atomic uint64_t synced_all; /* and onespace_window_sync_all: the writes of all ranks */
};

static struct entry *journal;
static size_t put_words;

/* A word encodes its number and its place, and no mixture of two such words is valid. */
static const uint64_t factor = 0x9e3779b97f4a7c15, inverse = 0xf1de83e19937733d;

static uint64_t word_of(uint64_t number, uint64_t place)
{
    return (place << 32 | number) * factor;
}

/* -1: it is torn, or of another place. */
static int64_t number_of(uint64_t word, uint64_t place)
{
    uint64_t decoded = word * inverse;
    return word == 0 ? 0 : decoded >> 32 == place ? (int64_t)(decoded & UINT32_MAX) : -1;
}

/* The first word of a part that a rank puts; before them are the words that their owner stores. */
static size_t first_of(int writer)
{
    return OWN_WORDS + (size_t)writer * put_words;
}

static uint64_t place_of(int part, size_t index)
{
    return (uint64_t)part * first_of(ranks) + index + 1;
}

static uint64_t synced_by_all(void)
{
    uint64_t most = 0;
    for (int i = 0; i < ranks; i++)
        most = journal[i].synced_all > most ? journal[i].synced_all : most;
    return most;
}

/* These words must have what the journal says of their writer. */
static void check_words(const uint64_t *part, size_t first, size_t count, int writer, int64_t least)
{
    int64_t synced = (int64_t)journal[writer].synced, begun = (int64_t)journal[writer].begun;
    least = synced > least ? synced : least;
    for (size_t i = first; i < first + count; i++) {
        int64_t number = number_of(part[i], place_of(rank, i));
        if ((number < least || number > begun) && wrong++ < 3)
            printf("rank %d: word %zu, of rank %d, is %lld, not %lld to %lld\n", rank, i, writer,
                   (long long)number, (long long)least, (long long)begun);
    }
}

static int is_in_memory(const char *layout)
{
    return strcmp(layout, "mixed") == 0 && rank % 2;
}

static void check_part(const uint64_t *part)
{
    int64_t least = (int64_t)synced_by_all();
    check_words(part, 0, OWN_WORDS, rank, least);
    for (int writer = 0; writer < ranks; writer++)
        check_words(part, first_of(writer), put_words, writer, least);
}

static void put(uint64_t *words, uint64_t number, int to, MPI_Win window)
{
    size_t first = first_of(rank), piece = number % 2 ? put_words : SMALL_PUT_WORDS;
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
    struct entry *own = &journal[rank];
    own->begun = number;
    for (size_t i = 0; i < OWN_WORDS; i++)
        part[i] = word_of(number, place_of(rank, i));
    for (int to = 0; to < ranks; to++)
        put(words, number, to, window);
    int is_together = number % SYNC_ALL_ROUNDS == 0;
    int result = is_together ? onespace_window_sync_all(window) : MPI_Win_sync(window);
    if (result != MPI_SUCCESS)
        return result;
    own->synced = number;
    if (is_together)
        own->synced_all = number;
    /* Half of all kills come when nothing is under way. */
    usleep((useconds_t)(number * 7919 % 4000));
    return result;
}

static void open_journal(const char *path)
{
    size_t size = JOURNAL_RANKS * sizeof(struct entry);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (ranks > JOURNAL_RANKS || fd < 0 || ftruncate(fd, (off_t)size) != 0)
        MPI_Abort(world, 1);
    journal = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
}

static MPI_Win open_window(const char *file, const char *layout, char **pairs, uint64_t **part)
{
    size_t size = first_of(ranks) * sizeof(uint64_t);
    MPI_Win window;
    MPI_Info info = part_hints(file, strcmp(layout, "shared") == 0,
                               SHARED_BEGIN + (size_t)rank * size, (const char *const *)pairs);
    if (is_in_memory(layout))
        MPI_Info_set(info, "alloc_type", "memory");
    MPI_Win_allocate((MPI_Aint)size, sizeof(uint64_t), info, world, part, &window);
    MPI_Info_free(&info);
    return window;
}

int main(int argc, char **argv)
{
    uint64_t *part, begun, number;
    mpi_begin(&argc, &argv);
    put_words = (size_t)atol(argv[4]) / sizeof(uint64_t);
    open_journal(argv[2]);
    MPI_Win window = open_window(argv[1], argv[3], argv + 6, &part);
    if (!is_in_memory(argv[3]))
        check_part(part);
    int own_wrong = wrong, any_wrong = 0;
    begun = journal[rank].begun;
    MPI_Allreduce(&begun, &number, 1, MPI_UINT64_T, MPI_MAX, world);
    MPI_Allreduce(&own_wrong, &any_wrong, 1, MPI_INT, MPI_SUM, world);
    uint64_t last = any_wrong ? number : number + (uint64_t)atol(argv[5]);
    uint64_t *words = malloc(put_words * sizeof(*words));
    MPI_Win_lock_all(0, window);
    journal[rank].pid = (uint64_t)getpid();
    while (number < last)
        OK(do_round(part, words, ++number, window));
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(words);
    return mpi_end();
}
