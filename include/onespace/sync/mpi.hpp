// onespace/sync/mpi.hpp: a team of the ranks of an MPI communicator that share the caller's node.
//
// Its memory is in MPI-3 shared windows, which the MPI maps into each rank (section 3.1 of the
// paper). If the ranks are tasks of one address space (`mpiexec onespace run`), the team detects
// that and is direct. Needs an initialised MPI with MPI_Win_allocate_shared; any thread level.
#ifndef ONESPACE_SYNC_MPI_HPP
#define ONESPACE_SYNC_MPI_HPP

// The MPIs' own C++ bindings, which MPI-3 removed, would need further libraries.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <random>

#include "onespace/sync/team.hpp"

namespace onespace::sync
{
namespace detail
{

inline void check_mpi(int result, const char *call)
{
    if (result == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    throw std::runtime_error(std::string("onespace::sync: ") + call + ": " + text);
}

// A duplicate of a communicator, which is freed with its owner unless MPI has ended before.
class communicator
{
  public:
    communicator() = default; // none yet
    explicit communicator(MPI_Comm of)
    {
        check_mpi(MPI_Comm_dup(of, &handle), "MPI_Comm_dup");
        check_mpi(MPI_Comm_rank(handle, &rank), "MPI_Comm_rank");
        check_mpi(MPI_Comm_size(handle, &size), "MPI_Comm_size");
    }
    communicator(const communicator &) = delete;
    communicator &operator=(const communicator &) = delete;
    ~communicator()
    {
        int finalized = 0;
        MPI_Finalized(&finalized);
        if (handle != MPI_COMM_NULL && !finalized)
            MPI_Comm_free(&handle);
    }
    MPI_Comm handle = MPI_COMM_NULL;
    int rank = 0, size = 0;
};

// Detects a shared address space: each rank has a unique number at a private address. A rank that
// finds a peer's number at the peer's address in its own memory shares the address space. The
// kernel does the read, since in an ordinary process that address may be unmapped.
inline bool share_address_space(MPI_Comm node, int size)
{
    struct mark {
        std::uint64_t words[2];
        const void *where;
    };
    std::random_device random;
    mark mine{};
    for (auto &word : mine.words)
        word = (static_cast<std::uint64_t>(random()) << 32) | random();
    mine.where = mine.words;
    std::vector<mark> all(size);
    check_mpi(
        MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, node),
        "MPI_Allgather");
    int ends[2], same = 0;
    if (pipe(ends) == 0) {
        same = 1;
        for (const mark &other : all) {
            std::uint64_t found[2] = {};
            same &= write(ends[1], other.where, sizeof(found)) == sizeof(found) && // EFAULT: no
                    read(ends[0], found, sizeof(found)) == sizeof(found) &&
                    std::memcmp(found, other.words, sizeof(found)) == 0;
        }
        close(ends[0]);
        close(ends[1]);
    }
    int agreed = 0; // the reduction also keeps all numbers in place until all ranks have looked
    check_mpi(MPI_Allreduce(&same, &agreed, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
    return agreed;
}

class mpi_backing : public backing
{
  public:
    // Takes ownership of `node`.
    explicit mpi_backing(MPI_Comm node) : node_(node)
    {
        check_mpi(MPI_Comm_size(node_, &size_), "MPI_Comm_size");
        direct_ = size_ == 1 || share_address_space(node_, size_);
        checked_.resize(size_);
    }
    bool direct() const noexcept override
    {
        return direct_;
    }
    // Collective, called once: the controls of all ranks, with the caller's filled in.
    std::vector<control *> make_controls()
    {
        for (auto &one : allocate(sizeof(control) + line_size, control_window_))
            peers_.push_back(reinterpret_cast<control *>(one.data));
        if (peers_.empty())
            peers_.push_back(&alone_);
        introduce(peers_[rank()]);
        return peers_;
    }

    std::vector<segment> allocate(std::size_t bytes, void *&handle) override
    {
        if (size_ == 1) // some MPIs refuse windows of one rank
            return {};
        auto window = std::make_unique<MPI_Win>(MPI_WIN_NULL);
        MPI_Info info;
        void *mine;
        check_mpi(MPI_Info_create(&info), "MPI_Info_create");
        MPI_Info_set(info, "alloc_shared_noncontig", "true"); // separate pages for each rank
        int result = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, info, node_, &mine,
                                             window.get());
        MPI_Info_free(&info);
        check_mpi(result, "MPI_Win_allocate_shared");
        std::vector<segment> segments(size_);
        for (int i = 0; i < size_; i++) {
            MPI_Aint length;
            int unit;
            void *base;
            check_mpi(MPI_Win_shared_query(*window, i, &length, &unit, &base),
                      "MPI_Win_shared_query");
            // The window is mapped in whole pages, so the result is the same on all ranks.
            auto at =
                (reinterpret_cast<std::uintptr_t>(base) + line_size - 1) / line_size * line_size;
            segments[i] = {reinterpret_cast<std::byte *>(at), 0};
        }
        std::memset(segments[rank()].data, 0, bytes - line_size);
        check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, *window), "MPI_Win_lock_all");
        handle = window.release();
        return segments;
    }
    void release(void *handle) override
    {
        auto *window = static_cast<MPI_Win *>(handle);
        MPI_Win_unlock_all(*window);
        MPI_Win_free(window);
        delete window;
    }
    // True if a rank's process is gone, or is a zombie that the launcher has not reaped. Cannot be
    // known across PID namespaces. A rank that has executed another program is not noticed.
    bool ended(int rank) noexcept override
    {
        auto now = std::chrono::steady_clock::now();
        const control &peer = *peers_[rank], &self = *peers_[this->rank()];
        if (now - checked_[rank] < std::chrono::milliseconds(50))
            return false;
        checked_[rank] = now;
        if (!peer.pid_namespace || peer.pid_namespace != self.pid_namespace || !peer.started ||
            peer.started == unknown_start)
            return false;
        auto now_started = start_of(peer.pid);
        return now_started != unknown_start && now_started != peer.started;
    }
    void close(bool orderly) noexcept override
    {
        int finalized = 0;
        MPI_Finalized(&finalized);
        if (!orderly || finalized)
            return;
        if (control_window_)
            release(control_window_);
        MPI_Comm_free(&node_);
    }

    int rank() const noexcept
    {
        int rank = 0;
        MPI_Comm_rank(node_, &rank);
        return rank;
    }

  private:
    MPI_Comm node_;
    int size_ = 0;
    bool direct_ = false;
    control alone_{};                // of a team of one
    void *control_window_ = nullptr; // of a larger one
    std::vector<control *> peers_;
    std::vector<std::chrono::steady_clock::time_point> checked_;
};

} // namespace detail

// Collective over `communicator`: the team of its ranks on the caller's node, in the communicator's
// order. Throws std::runtime_error with the MPI's text if its error handler returns.
inline team from_mpi(MPI_Comm communicator)
{
    MPI_Comm node;
    int rank;
    detail::check_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
    detail::check_mpi(
        MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
    auto base = std::make_unique<detail::mpi_backing>(node);
    rank = base->rank();
    auto controls = base->make_controls();
    return team(std::move(base), rank, std::move(controls));
}

} // namespace onespace::sync

#endif
