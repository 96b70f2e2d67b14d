// onespace/sync/team_member.hpp: a rank of a team as the algorithms see it (member.hpp).
#ifndef ONESPACE_SYNC_TEAM_MEMBER_HPP
#define ONESPACE_SYNC_TEAM_MEMBER_HPP

#include "onespace/sync/member.hpp"
#include "onespace/sync/team.hpp"

namespace onespace::sync::detail
{

template <order_policy Order, wait_policy Wait> class team_member
{
  public:
    using region = sync::region;
    class buffer
    {
      public:
        std::byte *get(std::size_t bytes)
        {
            memory_.resize(std::max(memory_.size(), bytes / sizeof(std::max_align_t) + 1));
            return reinterpret_cast<std::byte *>(memory_.data());
        }

      private:
        std::vector<std::max_align_t> memory_;
    };

    explicit team_member(const team &of) : team_(of)
    {
    }
    const sync::team &team() const noexcept
    {
        return team_;
    }
    int rank() const noexcept
    {
        return team_.rank();
    }
    int size() const noexcept
    {
        return team_.size();
    }
    bool direct() const noexcept
    {
        return team_.direct();
    }
    bool oversubscribed() const noexcept
    {
        return team_.oversubscribed();
    }
    static bool guarded() noexcept
    {
        return is_guarded();
    }
    void signal(flag &what, std::uint64_t value) const
    {
        sync::team::signal<Order, Wait>(what, value);
    }
    std::uint64_t await(flag &what, std::uint64_t value, int rank) const
    {
        return team_.template await<Order, Wait>(what, value, rank);
    }
    static constexpr bool lost() noexcept // await throws
    {
        return false;
    }
    static void mismatch(int rank)
    {
        throw std::invalid_argument("onespace::sync: rank " + std::to_string(rank) +
                                    " is in another collective operation, or gave another size or "
                                    "root");
    }
    region allocate(std::size_t bytes) const
    {
        return team_.allocate(bytes);
    }
    const tree &links_from(int root)
    {
        if (root != root_)
            links_ = tree_of(team_.places(), team_.rank(), root_ = root);
        return links_;
    }

  private:
    sync::team team_;
    tree links_;
    int root_ = -1; // of links_
};

static_assert(member<team_member<release_acquire, adaptive>>);

} // namespace onespace::sync::detail

#endif
