// onespace/sync/rounds.hpp: the dissemination barrier, over any member (member.hpp).
#ifndef ONESPACE_SYNC_ROUNDS_HPP
#define ONESPACE_SYNC_ROUNDS_HPP

#include <algorithm>

#include "onespace/sync/member.hpp"

namespace onespace::sync::detail
{

template <member Member> class rounds
{
  public:
    // Collective. radix: 2 to the number of ranks; 0 chooses.
    explicit rounds(const Member &of, int radix = 0)
        : member_(of), flags_(of.allocate(sizeof(flag))),
          radix_(radix ? radix : choose(of.size(), of.oversubscribed()))
    {
    }
    void wait()
    {
        int size = member_.size(), rank = member_.rank();
        for (long distance = 1; distance < size; distance *= radix_) {
            // One word per rank counts the rounds of all barriers: a larger value than awaited
            // implies that the rank has passed the awaited round.
            member_.signal(*flags_.template at<flag>(rank), ++round_);
            for (long i = 1; i < radix_ && i * distance < size; i++) {
                int from = static_cast<int>((rank + size - i * distance) % size);
                member_.await(*flags_.template at<flag>(from), round_, from);
            }
        }
    }

  private:
    static int choose(int size, bool oversubscribed)
    {
        return oversubscribed || size <= 8 ? std::max(size, 2) : 4;
    }
    Member member_;
    typename Member::region flags_;
    long radix_;
    std::uint64_t round_ = 0;
};

} // namespace onespace::sync::detail

#endif
