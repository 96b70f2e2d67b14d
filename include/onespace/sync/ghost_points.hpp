// onespace/sync/ghost_points.hpp: copies the points of a list from or to a vector.
#ifndef ONESPACE_SYNC_GHOST_POINTS_HPP
#define ONESPACE_SYNC_GHOST_POINTS_HPP

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) // TSan does not see these stores
#if defined(__has_feature)
#if !__has_feature(thread_sanitizer)
#define ONESPACE_SYNC_STREAMS 1
#endif
#else
#define ONESPACE_SYNC_STREAMS 1
#endif
#endif
#ifdef ONESPACE_SYNC_STREAMS
#include <emmintrin.h>
#endif

namespace onespace::sync::detail
{

// Copies to memory that another CPU reads next. Plain stores leave modified lines in the writer's
// caches, from where the reader's CPU must fetch them one by one: if the two share no cache, that
// can take several times as long as reading from memory, which is prefetched. Non-temporal stores
// bypass the caches; between CPUs that share a cache they are slower.

// Below this size streaming is never faster.
inline constexpr std::size_t stream_from = 2048;

// Copies; `to` is aligned to 16 bytes. Others may read it after a later stream_fence and release.
inline void stream(void *to, const void *from, std::size_t bytes)
{
    std::size_t done = 0;
#ifdef ONESPACE_SYNC_STREAMS
    auto *target = static_cast<char *>(to);
    auto *source = static_cast<const char *>(from);
    for (; done + sizeof(__m128i) <= bytes; done += sizeof(__m128i))
        _mm_stream_si128(reinterpret_cast<__m128i *>(target + done),
                         _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + done)));
#endif
    if (done < bytes)
        std::memcpy(static_cast<char *>(to) + done, static_cast<const char *>(from) + done,
                    bytes - done);
}

// Orders non-temporal stores before later stores; a release store alone does not.
inline void stream_fence()
{
#ifdef ONESPACE_SYNC_STREAMS
    _mm_sfence();
#endif
}

// Points of a vector, `values` values each. Lists of consecutive points, as in the numbering of
// figure 8 of the paper, are copied in one piece.
class ghost_points
{
  public:
    ghost_points() = default;
    ghost_points(std::vector<int> list, std::size_t values)
        : list_(std::move(list)), values_(values)
    {
        for (std::size_t i = 1; i < list_.size(); i++)
            consecutive_ &= list_[i] == list_[i - 1] + 1;
    }
    bool empty() const noexcept
    {
        return list_.empty();
    }
    std::size_t values() const noexcept // of all points together
    {
        return list_.size() * values_;
    }

    template <class T> void pack(T *packed, const T *vector) const
    {
        if (consecutive_)
            return copy(packed, begin(vector), values());
        for_each([&](std::size_t to, std::size_t from) { packed[to] = vector[from]; });
    }
    // As pack, by non-temporal stores; `packed` is aligned to 16 bytes. Others may read it after a
    // stream_fence.
    template <class T> void stream(T *packed, const T *vector) const
    {
        if (consecutive_)
            return detail::stream(packed, begin(vector), values() * sizeof(T));
        // Gathered in the first-level cache; 16 values are a multiple of 16 bytes.
        constexpr std::size_t block = 16 * (sizeof(T) < 64 ? 64 / sizeof(T) : 1);
        alignas(T) std::byte gathered[block * sizeof(T)];
        std::size_t done = 0;
        for_each([&](std::size_t to, std::size_t from) {
            std::memcpy(gathered + (to - done) * sizeof(T), vector + from, sizeof(T));
            if (to - done + 1 < block)
                return;
            detail::stream(packed + done, gathered, sizeof(gathered));
            done = to + 1;
        });
        detail::stream(packed + done, gathered, (values() - done) * sizeof(T));
    }
    template <class T> void unpack(T *vector, const T *packed) const
    {
        if (consecutive_)
            return copy(begin(vector), packed, values());
        for_each([&](std::size_t from, std::size_t to) { vector[to] = packed[from]; });
    }
    // Copies directly from the points `source` of another vector.
    template <class T> void take(T *vector, const ghost_points &source, const T *from) const
    {
        if (source.consecutive_)
            return unpack(vector, source.begin(from));
        if (consecutive_)
            return source.pack(begin(vector), from);
        for (std::size_t i = 0; i < list_.size(); i++)
            for (std::size_t v = 0; v < values_; v++)
                vector[list_[i] * values_ + v] = from[source.list_[i] * values_ + v];
    }

    // Modifies the points, as a computation would.
    template <class T> void touch(T *vector) const
    {
        for_each([&](std::size_t, std::size_t at) {
            std::memset(static_cast<void *>(vector + at), 0, sizeof(T));
        });
    }

  private:
    template <class T> T *begin(T *vector) const
    {
        return list_.empty() ? vector : vector + list_[0] * values_;
    }
    template <class T> static void copy(T *to, const T *from, std::size_t count)
    {
        if (count)
            std::memcpy(to, from, count * sizeof(T));
    }
    // Calls visit(packed position, position in the vector) for each value.
    template <class Visit> void for_each(Visit visit) const
    {
        if (values_ == 1) {
            for (std::size_t i = 0; i < list_.size(); i++)
                visit(i, static_cast<std::size_t>(list_[i]));
            return;
        }
        for (std::size_t i = 0; i < list_.size(); i++)
            for (std::size_t v = 0; v < values_; v++)
                visit(i * values_ + v, list_[i] * values_ + v);
    }
    std::vector<int> list_;
    std::size_t values_ = 1;
    bool consecutive_ = true;
};

} // namespace onespace::sync::detail

#endif
