// onespace/sync/stream.hpp: copies to memory that another CPU reads next.
//
// Plain stores leave modified lines in the writer's caches, from where the reader's CPU must fetch
// them one by one. If the two share no cache, that can take several times as long as reading from
// memory, which is prefetched. Non-temporal stores bypass the caches; between CPUs that share a
// cache they are slower.
#ifndef ONESPACE_SYNC_STREAM_HPP
#define ONESPACE_SYNC_STREAM_HPP

#include <cstddef>
#include <cstring>

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

} // namespace onespace::sync::detail

#endif
