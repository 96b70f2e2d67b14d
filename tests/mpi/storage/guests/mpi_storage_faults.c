/* mpi_storage_faults: the device under windows fails, or is full.
 *
 *   mpi_storage_faults DIRECTORY calls MODE...   each system call of one rank fails in turn
 *   mpi_storage_faults DIRECTORY full MODE...    the file system has more and more room, from none
 *
 * DIRECTORY is empty. EVERY in the environment: each call with each error, of each rank; otherwise
 * these alternate, and some calls of a frequent kind fail. Checked each time: one message, by the
 * rank that found it, with file and reason; the right class of error, on all ranks where the call
 * is collective; nothing is left behind; what was synchronised or committed before is there; and
 * once the device is in order the program continues. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/statvfs.h>

#include "mpi/guests/mpi_check.h"
#include "failing.h"
#include "onespace/window.h"

#pragma weak onespace_window_commit
#pragma weak onespace_window_version

/* ---- Kinds of windows ---- */

struct mode {
    const char *name;
    const char *hint;  /* a further one: NAME=VALUE */
    int versions;      /* that are kept */
    int is_one_file;   /* for all ranks */
    int is_contiguous; /* MPI_Win_allocate_shared */
    int is_memory;     /* MPI_Alloc_mem and MPI_Win_create */
    size_t size;       /* of each part */
};
enum { SIZE = 300001, SMALL = 90001, LARGE = (9 << 20) + 1 };
static const struct mode modes[] = {
    {"file_per_rank", NULL, 0, 0, 0, 0, SIZE},
    {"one_file", NULL, 0, 1, 0, 0, SIZE},
    {"contiguous", NULL, 0, 1, 1, 0, SIZE},
    {"write_once", "access_style=write_once", 0, 0, 0, 0, LARGE},
    {"unlink", "storage_alloc_unlink=true", 0, 0, 0, 0, SIZE},
    {"alloc_mem", NULL, 0, 0, 0, 1, SIZE},
    {"versions", NULL, 2, 0, 0, 0, SMALL},
    {"versions_one_file", NULL, 1, 1, 0, 0, SMALL},
    {"versions_combined", "storage_alloc_factor=0.5", 1, 0, 0, 0, SMALL},
};
static const struct mode *mode;

static int removes(void)
{
    return mode->hint && strstr(mode->hint, "unlink") != NULL;
}

struct opened {
    MPI_Win window;
    char *base;
    uint64_t version;
};

static MPI_Info make_hints(void)
{
    char offset[64], versions[64];
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%zu",
             mode->is_one_file && !mode->is_contiguous ? (size_t)rank * mode->size : 0);
    snprintf(versions, sizeof(versions), "storage_alloc_versions=%d", mode->versions);
    return hints(mode->is_one_file ? path_of("data", -1) : path_of("data.", rank),
                 PAIRS(offset, versions, mode->hint));
}

/* Not collective: all ranks free their memory if one has none. */
static int create_on_memory(struct opened *opened, MPI_Info info)
{
    const char *path = path_of("data.", rank);
    int is_new = access(path, F_OK) != 0, worst = 0;
    int class = class_of(MPI_Alloc_mem((MPI_Aint)mode->size, info, &opened->base));
    int has_failed = class != MPI_SUCCESS;
    MPI_Allreduce(&has_failed, &worst, 1, MPI_INT, MPI_MAX, world);
    if (!worst)
        return class_of(MPI_Win_create(opened->base, (MPI_Aint)mode->size, 1, MPI_INFO_NULL, world,
                                       &opened->window));
    if (!has_failed)
        MPI_Free_mem(opened->base);
    if (!has_failed && is_new)
        unlink(path);
    return class;
}

static int allocate(struct opened *opened)
{
    int result;
    MPI_Info info = make_hints();
    opened->version = 0;
    if (mode->is_memory)
        result = create_on_memory(opened, info);
    else if (mode->is_contiguous)
        result = MPI_Win_allocate_shared((MPI_Aint)mode->size, 1, info, world, &opened->base,
                                         &opened->window);
    else
        result =
            MPI_Win_allocate((MPI_Aint)mode->size, 1, info, world, &opened->base, &opened->window);
    MPI_Info_free(&info);
    if (result != MPI_SUCCESS)
        return class_of(result);
    MPI_Win_set_errhandler(opened->window, MPI_ERRORS_RETURN);
    if (mode->versions)
        OK(onespace_window_version(opened->window, &opened->version));
    return MPI_SUCCESS;
}

static int close_window(struct opened *opened)
{
    int class = class_of(MPI_Win_free(&opened->window));
    return mode->is_memory ? class_of(MPI_Free_mem(opened->base)) : class;
}

static int synchronise(struct opened *opened)
{
    return class_of(mode->versions ? onespace_window_commit(opened->window, &opened->version)
                                   : MPI_Win_sync(opened->window));
}

/* ---- Contents ---- */

static char byte_of(int part, size_t at, uint64_t state)
{
    return (char)(state ? at * 7 + (size_t)part * 31 + state * 13 : 0);
}

static void put(struct opened *opened, int part, size_t from, size_t to, uint64_t state)
{
    char *data = malloc(to - from);
    for (size_t i = from; i < to; i++)
        data[i - from] = byte_of(part, i, state);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, part, 0, opened->window));
    OK(MPI_Put(data, (int)(to - from), MPI_BYTE, part, (MPI_Aint)from, (int)(to - from), MPI_BYTE,
               opened->window));
    OK(MPI_Win_unlock(part, opened->window));
    free(data);
}

/* Each rank: the first half of its own part, some of it by stores, and the second half of the
 * next rank's. Windows on memory of MPI_Alloc_mem are MPI's: there all of the own part. */
static void store(struct opened *opened, uint64_t state)
{
    size_t half = mode->size / 2, few = mode->is_memory ? mode->size : 20000;
    MPI_Barrier(world); /* no rank puts while others look */
    for (size_t i = 0; i < few; i++)
        opened->base[i] = byte_of(rank, i, state);
    if (!mode->is_memory) {
        put(opened, rank, few, half, state);
        put(opened, next_rank, half, mode->size, state);
    }
    MPI_Barrier(world);
}

static int holds(const struct opened *opened, uint64_t state)
{
    for (size_t i = 0; i < mode->size; i++)
        if (opened->base[i] != byte_of(rank, i, state))
            return 0;
    return 1;
}

/* ---- What is left behind ---- */

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Names and sizes; with `removes` all of it goes. */
static void visit(const char *path, char *text, size_t size, int removes)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_entry, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4400];
        struct stat status = {0};
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        lstat(name, &status);
        int is_directory = S_ISDIR(status.st_mode);
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s %ld\n", name + strlen(directory),
                 is_directory ? 0 : (long)status.st_size);
        if (is_directory)
            visit(name, text, size, removes);
        if (removes && (is_directory ? rmdir(name) : unlink(name)) != 0)
            CHECK(!"cannot be removed");
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void list(char text[], size_t size, int removes)
{
    text[0] = 0;
    MPI_Barrier(world);
    if (rank == 0)
        visit(directory, text, size, removes);
    MPI_Barrier(world);
}

/* Descriptors of this process and mappings of the address space. */
static void check_nothing_is_open(void)
{
    char line[4400], path[4096];
    DIR *open_files = opendir("/proc/self/fd");
    for (struct dirent *entry; open_files && (entry = readdir(open_files));) {
        snprintf(line, sizeof(line), "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(line, path, sizeof(path) - 1);
        path[length > 0 ? length : 0] = 0;
        CHECK(!strstr(path, directory));
    }
    closedir(open_files);
    MPI_Barrier(world);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        CHECK(!strstr(line, directory));
    if (maps)
        fclose(maps);
}

/* ---- Messages ---- */

static int messages_fd = -1; /* standard error, meanwhile */
static char message[4000];

static void capture_messages(void)
{
    messages_fd = memfd_create("messages", MFD_CLOEXEC);
    dup2(messages_fd, 2);
}

/* How many messages the layer has printed on all ranks since the last call; this rank's in
 * `message`. */
static int count_messages(void)
{
    int count = 0, sum = 0;
    off_t end = lseek(messages_fd, 0, SEEK_CUR);
    ssize_t length = pread(messages_fd, message, sizeof(message) - 1, 0);
    message[length > 0 && end > 0 ? length : 0] = 0;
    CHECK(ftruncate(messages_fd, 0) == 0 && lseek(messages_fd, 0, SEEK_SET) == 0);
    for (const char *at = message; (at = strstr(at, "onespace: rank ")); at++)
        count++;
    MPI_Allreduce(&count, &sum, 1, MPI_INT, MPI_SUM, world);
    return sum;
}

static int any_rank(int holds)
{
    int any = 0;
    MPI_Allreduce(&holds, &any, 1, MPI_INT, MPI_MAX, world);
    return any;
}

/* ---- One try ---- */

/* What is wrong with the device, and on which rank; -1: on all. */
struct trouble {
    enum call call;
    unsigned number;
    int error, rank;
    void (*begin)(const struct trouble *), (*end)(void);
};

enum { ALLOCATE, SYNC, AGAIN, FREE, PHASES };
static const char *const phase_names[PHASES] = {"allocate", "synchronise", "again", "free"};

struct outcome {
    int class[PHASES];
    int has_failed; /* on any rank */
    int first;      /* the phase that failed first */
    int is_unknown; /* whether the version that failed is there */
};

static int class_for(int error)
{
    return error == ENOSPC   ? MPI_ERR_NO_SPACE
           : error == EDQUOT ? MPI_ERR_QUOTA
           : error == EACCES ? MPI_ERR_ACCESS
                             : MPI_ERR_IO;
}

/* After a phase: counts its messages, once, and returns whether any rank has failed. */
static int judge(struct outcome *outcome, const struct trouble *trouble, int phase)
{
    int class = outcome->class[phase], expected = class_for(trouble->error);
    int has_failed = class != MPI_SUCCESS, messages = count_messages();
    int any = any_rank(has_failed), all = !any_rank(!has_failed);
    int is_collective = (phase == ALLOCATE && !mode->is_memory) ||
                        (phase == SYNC && mode->versions) || (phase == FREE && !mode->is_memory);
    CHECK(!has_failed || class == expected);
    CHECK(!is_collective || any == all);
    CHECK(any || messages == 0);
    if (any && !outcome->has_failed) {
        /* Any rank that synchronises what the trouble has hit. */
        int is_any = trouble->rank < 0 || (phase == AGAIN && !mode->versions);
        CHECK(messages >= 1 && messages <= (is_any ? ranks : 1));
        CHECK(!message[0] || strstr(message, directory));
        CHECK(!message[0] || strstr(message, strerror(trouble->error)));
        CHECK(!message[0] || is_any || rank == trouble->rank);
        outcome->first = phase;
        outcome->has_failed = 1;
        outcome->is_unknown = any_rank(strstr(message, "not marked") != NULL);
    }
    return any;
}

/* Without versions the rank with the trouble comes first, so that it finds the error. */
static int synchronise_in_turn(struct opened *opened, const struct trouble *trouble)
{
    if (mode->versions)
        return synchronise(opened);
    return rank == trouble->rank || trouble->rank < 0 ? synchronise(opened) : MPI_SUCCESS;
}

/* The second one: of the same version when the first failed, and there is room now. */
static void synchronise_again(struct opened *opened, const struct trouble *trouble,
                              struct outcome *outcome, uint64_t *state)
{
    int is_retried = mode->versions && outcome->has_failed;
    if (is_retried)
        trouble->end();
    else
        store(opened, ++*state);
    outcome->class[AGAIN] = synchronise(opened);
    if (!is_retried) {
        (void)judge(outcome, trouble, AGAIN);
        return;
    }
    (void)count_messages();
    int any = any_rank(outcome->class[AGAIN] != MPI_SUCCESS);
    CHECK(any == (outcome->class[AGAIN] != MPI_SUCCESS));
    if (outcome->is_unknown)
        CHECK(any); /* a version that may be there is not made again */
    else if (trouble->error == ENOSPC)
        CHECK(!any);
    if (any)
        --*state;
}

/* Opens, stores, synchronises twice, closes; *state: what the window has at the end, as far as the
 * program can know. */
static struct outcome try(const struct trouble *trouble, uint64_t *state)
{
    struct outcome outcome = {.first = PHASES};
    struct opened opened;
    int is_lasting;
    (void)count_messages();
    trouble->begin(trouble);
    outcome.class[ALLOCATE] = allocate(&opened);
    if (judge(&outcome, trouble, ALLOCATE)) {
        trouble->end();
        return outcome;
    }
    CHECK(!mode->versions || opened.version == *state);
    CHECK(!mode->versions || holds(&opened, *state));
    store(&opened, ++*state);
    outcome.class[SYNC] = synchronise_in_turn(&opened, trouble);
    (void)judge(&outcome, trouble, SYNC);
    MPI_Barrier(world);
    int has_failed = outcome.has_failed;
    synchronise_again(&opened, trouble, &outcome, state);
    if (mode->versions && !has_failed && outcome.has_failed)
        --*state;
    is_lasting = outcome.has_failed && !mode->versions;
    if (has_failed && is_lasting) /* a flush that failed is final */
        CHECK(rank != trouble->rank || outcome.class[AGAIN] != MPI_SUCCESS);
    outcome.class[FREE] = close_window(&opened);
    (void)judge(&outcome, trouble, FREE);
    if (is_lasting && !removes())
        CHECK(mode->is_memory || outcome.class[FREE] != MPI_SUCCESS);
    trouble->end();
    return outcome;
}

/* The device is in order: what must be there is there, and the program goes on. */
static void continue_after(const struct outcome *outcome, uint64_t state)
{
    struct opened opened;
    uint64_t lowest, highest;
    int is_there = 1;
    OK(allocate(&opened));
    if (mode->versions) {
        MPI_Allreduce(&opened.version, &lowest, 1, MPI_UINT64_T, MPI_MIN, world);
        MPI_Allreduce(&opened.version, &highest, 1, MPI_UINT64_T, MPI_MAX, world);
        CHECK(lowest == highest);
        CHECK(opened.version == state || (outcome->is_unknown && opened.version == state + 1));
        state = opened.version;
        is_there = state != 0; /* without a version the file has what was stored last */
    } else {
        is_there = !outcome->has_failed && !removes();
    }
    CHECK(!is_there || holds(&opened, state));
    store(&opened, state + 1);
    OK(synchronise(&opened));
    CHECK(!mode->versions || opened.version == state + 1);
    OK(close_window(&opened));
    CHECK(count_messages() == 0);
    check_nothing_is_open();
}

/* Whether a failing call need not be an error: there is another way, or its effect is not needed.
 */
static int may_pass(enum call call)
{
    return call == CALL_OPEN || call == CALL_OPENAT || call == CALL_FSTAT ||
           (call == CALL_PWRITE && !mode->versions);
}

/* With or without files of before. */
static struct outcome attempt(const struct trouble *trouble, int is_new)
{
    static char before[20000], after[20000];
    struct outcome none = {.first = PHASES};
    uint64_t state = 0;
    list(before, sizeof(before), 1);
    if (!is_new) {
        continue_after(&none, 0); /* as state 1 */
        state = 1;
    }
    list(before, sizeof(before), 0);
    struct outcome outcome = try(trouble, &state);
    check_nothing_is_open();
    list(after, sizeof(after), 0);
    if (outcome.first == ALLOCATE)
        CHECK(strcmp(before, after) == 0);
    if (!outcome.has_failed && removes())
        CHECK(after[0] == 0);
    continue_after(&outcome, state);
    return outcome;
}

static void print_context(const struct trouble *trouble, const struct outcome *outcome, int is_new)
{
    if (rank == 0)
        printf("%s, %s files, %s %u of rank %d: %s, failed at: %s\n", mode->name,
               is_new ? "new" : "old", call_names[trouble->call], trouble->number, trouble->rank,
               strerror(trouble->error),
               outcome->has_failed ? phase_names[outcome->first] : "nothing");
    if (message[0])
        printf("message of rank %d: %s", rank, message);
    fflush(stdout);
}

/* ---- Each call in turn ---- */

static void begin_to_fail(const struct trouble *trouble)
{
    memset(&failing, 0, sizeof(failing));
    failing.call = trouble->call;
    failing.number = trouble->number;
    failing.error = trouble->error;
    MPI_Barrier(world);
    failing.directory = rank == trouble->rank ? directory : NULL;
}

static void end_to_fail(void)
{
    failing.directory = NULL;
    MPI_Barrier(world);
}

static unsigned tried[CALLS];

/* One call with one error. Returns whether nothing was wrong. */
static int fail_call(struct trouble *trouble, int is_new)
{
    struct outcome outcome = attempt(trouble, is_new);
    /* Any of the ranks may make a common file. */
    int has_hit = any_rank(failing.has_hit);
    CHECK(has_hit || mode->is_one_file);
    CHECK(outcome.has_failed || may_pass(trouble->call) || !has_hit);
    tried[trouble->call] += (unsigned)has_hit;
    int is_wrong = any_rank(wrong > 0);
    if (is_wrong)
        print_context(trouble, &outcome, is_new);
    return !is_wrong;
}

/* The calls of one rank: all of them, or some of those of which there are many. */
static int fail_each(int failing_rank, int is_new, unsigned *turn)
{
    enum { FREQUENT = 5 };
    static const int errors[] = {ENOSPC, EIO};
    int is_every = getenv("EVERY") != NULL;
    unsigned counts[CALLS];
    struct trouble trouble = {CALL_OPEN, 0, 0, failing_rank, begin_to_fail, end_to_fail};
    struct outcome outcome = attempt(&trouble, is_new);
    CHECK(!outcome.has_failed);
    memcpy(counts, failing.counts, sizeof(counts));
    MPI_Bcast(counts, CALLS, MPI_UNSIGNED, failing_rank, world);
    for (int call = 0; call < CALLS; call++) {
        unsigned step = is_every || counts[call] <= FREQUENT ? 1 : counts[call] / FREQUENT;
        trouble.call = (enum call)call;
        for (unsigned number = 1; number <= counts[call]; number += step, ++*turn)
            for (unsigned which = 0; which < 2; which++) {
                trouble.number = number;
                trouble.error = errors[which];
                if ((is_every || *turn % 2 == which) && !fail_call(&trouble, is_new))
                    return 0;
            }
    }
    return 1;
}

static void fail_calls(void)
{
    static unsigned turn;
    int is_fine = 1;
    for (int is_new = 0; is_new < 2; is_new++)
        for (int failing_rank = 0; failing_rank < ranks && is_fine; failing_rank++)
            if (getenv("EVERY") || failing_rank == is_new % ranks)
                is_fine = fail_each(failing_rank, is_new, &turn);
}

/* ---- A full file system ---- */

static char ballast[4096];
static size_t free_bytes;

static void print_little_space(off_t filled, int error)
{
    struct statvfs status = {0};
    (void)statvfs(ballast, &status);
    printf("of %llu free bytes %lld could be filled, %zu are needed: fallocate: %s\n",
           (unsigned long long)status.f_bfree * status.f_frsize, (long long)filled, free_bytes,
           strerror(error));
    fflush(stdout);
}

/* Fills the file system, and then frees so many bytes: file systems reserve some. XFS frees the
 * space of removed files later, so this may have to wait until there is as much to be filled. */
static void fill_disk(const struct trouble *trouble)
{
    enum { TRIES = 18000 }; /* three minutes */
    (void)trouble;
    MPI_Barrier(world);
    if (rank == 0) {
        int fd = open(ballast, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        off_t size = 0;
        int error = 0;
        CHECK(fd >= 0 && lseek(fd, 0, SEEK_END) == 0);
        for (int tries = 0; tries < TRIES && (!tries || size < (off_t)free_bytes); tries++) {
            if (tries) {
                usleep(10000);
                CHECK(syncfs(fd) == 0);
            }
            for (off_t more = 1 << 30; more >= 4096; more /= 2) {
                while (fallocate(fd, 0, size, more) == 0)
                    size += more;
                error = errno;
            }
        }
        if (size < (off_t)free_bytes)
            print_little_space(size, error);
        CHECK(size >= (off_t)free_bytes && ftruncate(fd, size - (off_t)free_bytes) == 0);
        close(fd);
    }
    MPI_Barrier(world);
}

static void empty_disk(void)
{
    MPI_Barrier(world);
    if (rank == 0)
        CHECK(truncate(ballast, 0) == 0);
    MPI_Barrier(world);
}

static void fill_more_and_more(void)
{
    enum { STEP = 64 << 10, PATIENCE = 3 };
    struct trouble trouble = {CALL_PWRITE, 0, ENOSPC, -1, fill_disk, empty_disk};
    snprintf(ballast, sizeof(ballast), "%s/../ballast", directory);
    for (int is_new = 0; is_new < 2; is_new++) {
        int failed = 0, passed = 0;
        for (free_bytes = 0; passed < PATIENCE && !any_rank(wrong > 0); free_bytes += STEP) {
            struct outcome outcome = attempt(&trouble, is_new);
            failed += outcome.has_failed;
            passed += !outcome.has_failed;
            if (any_rank(wrong > 0)) {
                print_context(&trouble, &outcome, is_new);
                printf("rank %d: with room for %zu bytes\n", rank, free_bytes);
            }
        }
        if (rank == 0)
            unlink(ballast);
        CHECK(failed > 0 || (!mode->versions && !is_new)); /* files of before have their space */
        if (rank == 0)
            printf("%s, %s files: %d failures\n", mode->name, is_new ? "new" : "old", failed);
    }
}

/* ---- */

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    directory = argv[1];
    int is_full = strcmp(argv[2], "full") == 0, standard_error = dup(2);
    capture_messages();
    for (int i = 3; i < argc; i++) {
        mode = NULL;
        for (size_t at = 0; at < COUNT_OF(modes); at++)
            if (strcmp(modes[at].name, argv[i]) == 0)
                mode = &modes[at];
        if (!mode)
            MPI_Abort(world, 2);
        if (is_full)
            fill_more_and_more();
        else
            fail_calls();
    }
    for (int call = 0; rank == 0 && !is_full && call < CALLS; call++)
        printf("%s failed %u times\n", call_names[call], tried[call]);
    dup2(standard_error, 2);
    return mpi_end();
}
