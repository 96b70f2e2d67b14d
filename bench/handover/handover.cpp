// bench/handover/handover.cpp: two threads on two CPUs; in a loop each changes its data and hands
// it to the other, in several ways.
//
// usage: handover BYTES...     prints "WAY BYTES SECONDS" lines, one per batch
// The cost of handing over is the loop's time minus that of the same loop without it, since data
// that another CPU has read is slower to change again. Ways:
//   in-place    the other copies it from where it was changed; both wait for that
//   plain       through a buffer, written by plain stores; two buffers alternate
//   streamed    through a buffer, by non-temporal stores
//   ring        plain, but with a ring of buffers of 4 MiB in all
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <onespace/sync/ghost_points.hpp>
#include <onespace/sync/wait.hpp>
#include <sched.h>
#include <thread>
#include <time.h>

namespace os = onespace::sync;

static constexpr std::size_t most = 1 << 20, ring_bytes = 4 << 20;
static constexpr int batches = 9;

struct alignas(4096) side {
    // Counts of updates handed over and taken. One writer each: this side stores (release) `given`,
    // which the other loads (acquire); `taken` the other way round.
    std::atomic<long> given{0}, unused[15], taken{0};
    alignas(4096) char data[most], ghosts[most], buffers[ring_bytes];
};
static std::unique_ptr<side> sides[2] = {std::make_unique<side>(), std::make_unique<side>()};

static double now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static void until(const std::atomic<long> &counter, long value)
{
    while (counter.load(std::memory_order_acquire) < value)
        os::relax();
}

static void in_place(side &own, side &other, std::size_t bytes, long k)
{
    own.given.store(k, std::memory_order_release);
    until(other.given, k);
    std::memcpy(own.ghosts, other.data, bytes);
    other.taken.store(k, std::memory_order_release);
    until(own.taken, k);
}

enum class kind { plain, streamed, ring };

template <kind Kind> static void by_buffer(side &own, side &other, std::size_t bytes, long k)
{
    std::size_t step = (bytes + 127) / 128 * 128;
    std::size_t at = step * (Kind == kind::ring ? k % (ring_bytes / step) : k % 2);
    until(own.taken, k - 2);
    if (Kind == kind::streamed) {
        os::detail::stream(own.buffers + at, own.data, bytes);
        os::detail::stream_fence();
    } else {
        std::memcpy(own.buffers + at, own.data, bytes);
    }
    own.given.store(k, std::memory_order_release);
    until(other.given, k);
    std::memcpy(own.ghosts, other.buffers + at, bytes);
    other.taken.store(k, std::memory_order_release);
}

static void nothing(side &, side &, std::size_t, long)
{
}

using way = void (*)(side &, side &, std::size_t, long);
static constexpr std::pair<const char *, way> ways[] = {{"in-place", in_place},
                                                        {"plain", by_buffer<kind::plain>},
                                                        {"streamed", by_buffer<kind::streamed>},
                                                        {"ring", by_buffer<kind::ring>}};

static double iterate(int self, way hand_over, std::size_t bytes, long &k, int count)
{
    auto &own = *sides[self], &other = *sides[!self];
    double start = now();
    for (int i = 0; i < count; i++) {
        for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
            long value;
            std::memcpy(&value, own.data + at, 8);
            value++;
            std::memcpy(own.data + at, &value, 8);
        }
        hand_over(own, other, bytes, ++k);
    }
    return (now() - start) / count;
}

static void work(int self, int argc, char **argv)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && seen++ == self)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    long k = 0, uncounted = 0;
    for (int batch = 0; batch < batches; batch++)
        for (int i = 1; i < argc; i++)
            for (const auto &[name, hand_over] : ways) {
                std::size_t bytes = strtoul(argv[i], nullptr, 10);
                int count = int(std::max<std::size_t>(2000000 / (bytes + 2000), 8));
                iterate(self, hand_over, bytes, k, count);
                double alone = iterate(self, nothing, bytes, uncounted, count);
                double both = iterate(self, hand_over, bytes, k, count);
                if (self == 0)
                    printf("%s %zu %.9e\n", name, bytes, std::max(both - alone, 1e-9));
            }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strtoul(argv[i], nullptr, 10) < 8 || strtoul(argv[i], nullptr, 10) > most) {
            fprintf(stderr, "usage: handover BYTES...   8 to %zu\n", most);
            return 2;
        }
    std::thread other(work, 1, argc, argv);
    work(0, argc, argv);
    other.join();
}
