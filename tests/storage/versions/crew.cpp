// tests/storage/versions/crew.cpp: see crew.hpp.
#include "crew.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "versions.hpp"

namespace
{

constexpr unsigned max_ranks = 16, page_size = 4096, page_words = page_size / 8, cycle = 32;

// Memory that all ranks and their parent share.
struct Shared {
    // A barrier: every rank adds to `arrived`; the last one resets it and opens the barrier by a
    // new generation (release), which the others wait for (acquire): writes before it are seen
    // after it.
    std::atomic<uint32_t> arrived, generation;
    int64_t value[max_ranks];        // written by its rank before a barrier, read after
    unsigned char message[256];      // rank 0's, likewise
    uint64_t seen[max_ranks][cycle]; // attempt by version, that a rank saw in its pages
    std::atomic<uint64_t> attempt;   // rank 0 writes it before a barrier
    std::atomic<uint64_t> marked;    // rank 0: the version whose commit it has marked last
    // Each written by one rank and read by the parent after that rank's end: relaxed is enough.
    std::atomic<uint64_t> restored[max_ranks], committed[max_ranks], bytes[max_ranks];
    std::atomic<int> error[max_ranks];
    char text[max_ranks][800], torn[max_ranks][200];
};

Shared *shared;
const Job *job;
uint32_t rank;
unsigned steps;      // writes and flushes of this rank so far
uint64_t committing; // the version that this rank commits, 0: none

// ---- Barrier ----

void barrier()
{
    uint32_t generation = shared->generation.load(std::memory_order_relaxed);
    if (shared->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == job->ranks) {
        shared->arrived.store(0, std::memory_order_relaxed);
        shared->generation.store(generation + 1, std::memory_order_release);
    }
    while (shared->generation.load(std::memory_order_acquire) == generation)
        usleep(20);
}

int broadcast(void *, void *data, size_t size)
{
    if (rank == 0)
        memcpy(shared->message, data, size);
    barrier();
    memcpy(data, shared->message, size);
    barrier();
    return 0;
}

int least(void *, int64_t value, int64_t *result)
{
    *result = value;
    if (job->without == Without::agreement && committing)
        return 0;
    shared->value[rank] = value;
    barrier();
    for (uint32_t i = 0; i < job->ranks; i++)
        *result = shared->value[i] < *result ? shared->value[i] : *result;
    barrier();
    return 0;
}

// ---- Steps to the device ----

void step()
{
    if ((int)rank == job->dying_rank && ++steps == job->dies_at_step)
        raise(SIGKILL);
}

// Without an agreement rank 0 may return from a commit before the others have written: it does.
void let_rank_0_return()
{
    if (job->without == Without::agreement && rank != 0 && !job->control.empty())
        for (int i = 0; i < 20000 && shared->marked < committing; i++)
            usleep(500);
}

ssize_t count_write(int fd, const void *data, size_t size, off_t at)
{
    if ((int)rank == job->full_rank && committing && at == VERSIONS_MARK_AT &&
        size == VERSIONS_HEADER) {
        errno = ENOSPC;
        return -1;
    }
    let_rank_0_return();
    // In two parts, so that a kill may come between them.
    size_t half = size > 256 ? size / 2 : size;
    ssize_t put = pwrite(fd, data, half, at);
    step();
    if (put > 0)
        shared->bytes[rank] += (uint64_t)put;
    return put;
}

int count_flush(int fd)
{
    step();
    return job->without == Without::flush ? 0 : fdatasync(fd);
}

int count_directory(int fd)
{
    step();
    return job->without == Without::flush ? 0 : fsync(fd);
}

int draw(void *bytes, size_t size)
{
    if (job->without == Without::nonce)
        memset(bytes, 0, size);
    else if (getentropy(bytes, size) != 0)
        return -1;
    return 0;
}

const versions_io io = {count_write, count_flush, count_directory, draw};

// ---- The window ----

uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ (value >> 32);
}

bool is_written(uint64_t page, uint64_t version)
{
    return version == 1 || version % cycle == page % cycle ||
           mix(page * 1000003 + version) % 8 == 0;
}

uint64_t writer_of(uint64_t page, uint64_t version)
{
    while (version && !is_written(page, version))
        version--;
    return version;
}

// This rank's pages, and what was stored since the last call of changes().
struct Part {
    uint64_t first, count, bytes;
    uint64_t *base;
    std::vector<storage_range> stored;
};

int changes(void *context, storage_ranges *ranges)
{
    auto &stored = static_cast<Part *>(context)->stored;
    free(ranges->range);
    ranges->range = static_cast<storage_range *>(calloc(stored.size() + 1, sizeof(storage_range)));
    std::copy(stored.begin(), stored.end(), ranges->range);
    ranges->count = stored.size();
    stored.clear();
    return 0;
}

void fill_page(uint64_t words[page_words], uint64_t page, uint64_t version, uint64_t attempt)
{
    words[0] = version;
    words[1] = attempt;
    for (unsigned i = 2; i < page_words; i++)
        words[i] = mix(page * 512 + i + version * 7919 + attempt);
}

uint64_t page_bytes(const Part &part, uint64_t i)
{
    return part.bytes - i * page_size < page_size ? part.bytes - i * page_size : page_size;
}

void store_version(Part &part, uint64_t version, uint64_t attempt)
{
    uint64_t words[page_words];
    for (uint64_t i = 0; i < part.count; i++) {
        uint64_t page = part.first + i;
        if (!is_written(page, version))
            continue;
        fill_page(words, page, version, attempt);
        memcpy(part.base + i * page_words, words, page_bytes(part, i));
        part.stored.push_back({i * page_size, page_bytes(part, i)});
    }
}

__attribute__((format(printf, 1, 2))) void torn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!shared->torn[rank][0])
        vsnprintf(shared->torn[rank], sizeof(shared->torn[rank]), format, arguments);
    va_end(arguments);
}

void check_page(const Part &part, uint64_t i, uint64_t version)
{
    uint64_t words[page_words], *page = part.base + i * page_words;
    uint64_t writer = writer_of(part.first + i, version);
    if (page[0] != writer) {
        torn("rank %u page %lu of version %lu is of version %lu, not %lu", rank, part.first + i,
             version, page[0], writer);
        return;
    }
    fill_page(words, part.first + i, writer, page[1]);
    if (memcmp(words, page, page_bytes(part, i)) != 0)
        torn("rank %u page %lu of version %lu is torn", rank, part.first + i, version);
    uint64_t &seen = shared->seen[rank][writer % cycle];
    if (seen && seen != page[1])
        torn("rank %u page %lu of version %lu: two attempts", rank, part.first + i, version);
    seen = page[1];
}

void check_window(const Part &part, uint64_t version)
{
    for (uint64_t i = 0; i < part.count; i++)
        check_page(part, i, version);
    barrier();
    for (uint32_t other = 0; other < job->ranks; other++)
        for (unsigned i = 0; i < cycle; i++)
            if (shared->seen[other][i] && shared->seen[rank][i] &&
                shared->seen[other][i] != shared->seen[rank][i])
                torn("ranks %u and %u hold different attempts of one version", rank, other);
}

// ---- A rank ----

[[noreturn]] void stop(const char *what)
{
    fprintf(stderr, "crew: %s: %s\n", what, strerror(errno));
    _exit(3);
}

Part map_part(std::string &path)
{
    Part part = {};
    part.first = job->pages * uint64_t(rank) / job->ranks;
    part.count = job->pages * uint64_t(rank + 1) / job->ranks - part.first;
    part.bytes = part.count * page_size - (rank + 1 == job->ranks ? job->tail : 0);
    path = job->is_separate ? job->path + "." + std::to_string(rank) : job->path;
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    off_t at = job->is_separate ? 0 : off_t(part.first * page_size);
    if (fd < 0 || posix_fallocate(fd, at, off_t(part.bytes)) != 0)
        stop(path.c_str());
    off_t before = at % sysconf(_SC_PAGESIZE); // the kernel's pages may be larger
    void *map = mmap(nullptr, size_t(before) + part.count * page_size, PROT_READ | PROT_WRITE,
                     MAP_SHARED, fd, at - before);
    if (map == MAP_FAILED)
        stop("mmap");
    close(fd);
    part.base = static_cast<uint64_t *>(map) + before / 8;
    return part;
}

void mark_commit(uint64_t version)
{
    if (rank != 0 || job->control.empty())
        return;
    char text[64];
    int fd = open(job->control.c_str(), O_WRONLY | O_CLOEXEC);
    int length = snprintf(text, sizeof(text), "mark committed %lu", version);
    if (fd < 0 || write(fd, text, size_t(length)) != length)
        stop(job->control.c_str());
    close(fd);
}

int commit(versions *made, Part &part, storage_error *error)
{
    uint64_t version = versions_newest(made) + 1;
    if (rank == 0)
        shared->attempt =
            mix(shared->attempt + uint64_t(time(nullptr)) * 1000003 + uint64_t(getpid()));
    barrier();
    store_version(part, version, shared->attempt);
    // Ranks arrive at different times.
    if (mix(job->seed + version * 31 + rank) % 3 == 0)
        usleep(mix(job->seed + version + rank) % 300);
    committing = version;
    int result = versions_commit(made, error);
    committing = 0;
    if (result == 0) {
        shared->committed[rank] = versions_newest(made);
        mark_commit(version);
        if (rank == 0)
            shared->marked = version;
    }
    return result;
}

int work(Part &part, const std::string &path, storage_error *error)
{
    versions_part whole = {path.c_str(),
                           reinterpret_cast<char *>(part.base),
                           size_t(part.bytes),
                           !job->is_separate,
                           part.first * page_size,
                           changes,
                           nullptr,
                           &part,
                           nullptr};
    versions_group group = {nullptr, rank, job->ranks, broadcast, least};
    versions *made = nullptr;
    int result = versions_open(&whole, &group, job->keep, &io, &made, error);
    if (result != 0)
        return result;
    shared->restored[rank] = versions_newest(made);
    if (versions_newest(made))
        check_window(part, versions_newest(made));
    for (unsigned i = 0; i < job->commits && result == 0; i++) {
        result = commit(made, part, error);
        if (result != 0 && job->retries)
            result = commit(made, part, error);
    }
    versions_close(made);
    return result;
}

[[noreturn]] void be_rank(uint32_t number)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rank = number;
    std::string path;
    storage_error error = {};
    Part part = map_part(path);
    shared->error[rank] = work(part, path, &error);
    memcpy(shared->text[rank], error.text, sizeof(error.text));
    _exit(0);
}

// ---- Their parent: like a launcher, it kills the others when one dies ----

uint64_t microseconds()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1000000 + uint64_t(now.tv_nsec) / 1000;
}

void kill_all(const std::vector<pid_t> &ranks)
{
    for (pid_t pid : ranks)
        if (pid > 0)
            kill(pid, SIGKILL);
}

void wait_for(std::vector<pid_t> &ranks, Outcome &outcome)
{
    // Polls are counted, not time: what delays the ranks delays their parent, too.
    const unsigned limit = 600000;
    unsigned looks = 0;
    uint64_t start = microseconds();
    size_t left = ranks.size();
    while (left) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        uint64_t passed = microseconds() - start;
        looks++;
        if (pid > 0) {
            left--;
            std::replace(ranks.begin(), ranks.end(), pid, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                outcome.is_killed = true;
                // The others run on for a moment, as with a launcher.
                usleep(mix(job->seed) % 2000);
                kill_all(ranks);
            }
        } else if (looks > limit || (job->killed_after_us && passed > job->killed_after_us)) {
            outcome.has_hung = looks > limit;
            kill_all(ranks);
        } else
            usleep(100);
    }
}

void collect(Outcome &outcome)
{
    outcome.error = shared->error[0];
    outcome.restored = shared->restored[0];
    for (uint32_t i = 0; i < job->ranks; i++) {
        outcome.errors_differ |= !outcome.is_killed && shared->error[i] != outcome.error;
        if (outcome.text.empty())
            outcome.text = shared->text[i];
        if (outcome.torn.empty())
            outcome.torn = shared->torn[i];
        if (shared->restored[i] > outcome.restored)
            outcome.restored = shared->restored[i];
        if (shared->committed[i] > outcome.committed)
            outcome.committed = shared->committed[i];
        outcome.bytes_written += shared->bytes[i];
    }
}

} // namespace

Outcome run_job(const Job &asked)
{
    Outcome outcome;
    job = &asked;
    void *memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        stop("mmap");
    shared = new (memory) Shared;
    shared->attempt = mix(asked.seed);
    std::vector<pid_t> ranks;
    for (uint32_t i = 0; i < asked.ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            stop("fork");
        if (pid == 0)
            be_rank(i);
        ranks.push_back(pid);
    }
    wait_for(ranks, outcome);
    collect(outcome);
    munmap(memory, sizeof(Shared));
    return outcome;
}
