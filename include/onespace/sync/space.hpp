// onespace/sync/space.hpp: a team of the tasks of a space that were started together; needs no MPI.
//
// Link with libonespace. Each task allocates its own memory; the others hold it (onespace_import),
// so that it stays mapped while they access it, even if its owner is killed.
#ifndef ONESPACE_SYNC_SPACE_HPP
#define ONESPACE_SYNC_SPACE_HPP

#include <cerrno>
#include <onespace.h>
#include <system_error>

#include "onespace/sync/team.hpp"

namespace onespace::sync
{
namespace detail
{

class space_backing : public backing
{
  public:
    explicit space_backing(std::string name) : name_("onespace.sync/" + std::move(name))
    {
    }
    bool direct() const noexcept override
    {
        return true;
    }
    // A task that executed another program has left too, although its process lives.
    bool ended(int rank) noexcept override
    {
        return onespace_is_member(ids_[rank]) == 0;
    }
    void close(bool orderly) noexcept override
    {
        for (int id : held_) {
            [[maybe_unused]] int unused = onespace_release(id);
        }
        if (orderly)
            free_open(mine_, sizeof(control)); // else others may still access it
    }
    // The controls of all tasks, the caller's filled in and exported.
    std::vector<control *> make_controls(int number, int ntasks)
    {
        mine_ = allocate_open(sizeof(control));
        if (!mine_)
            throw std::bad_alloc();
        introduce(new (mine_) control{});
        int result = onespace_export(name_.c_str(), mine_, sizeof(control));
        if (result < 0)
            throw std::system_error(-result, std::generic_category(),
                                    "onespace::sync: cannot export " + name_ +
                                        " (two teams of one name at once?)");
        std::vector<control *> controls;
        for (int i = 0; i < ntasks; i++) {
            ids_.push_back(find(i));
            controls.push_back(i == number ? static_cast<control *>(mine_) : hold(i));
        }
        return controls;
    }
    // All ranks have found the caller's control: the name can be reused for another team.
    void forget_name()
    {
        [[maybe_unused]] int unused = onespace_unexport(name_.c_str());
    }

  private:
    static int find(int number)
    {
        for (;;) {
            int id = onespace_task(number);
            if (id > 0)
                return id;
            if (id != -ESRCH)
                throw peer_lost(number);
            timespec soon{0, 1'000'000}; // not started yet
            nanosleep(&soon, nullptr);
        }
    }
    control *hold(int number)
    {
        void *address;
        std::size_t size;
        if (onespace_import(ids_[number], name_.c_str(), &address, &size, -1) < 0)
            throw peer_lost(number);
        held_.push_back(ids_[number]);
        return static_cast<control *>(address);
    }

    std::string name_;
    std::vector<int> ids_, held_;
    void *mine_ = nullptr;
};

} // namespace detail

// Collective among the tasks that were started together (onespace_ntasks of them): their team, in
// the order of their numbers. Teams created at the same time need different names, of at most 80
// bytes. Waits for tasks that have not been started yet. Throws peer_lost if one has already ended,
// and std::system_error outside a space, without a number, or if the name is in use.
inline team from_space(const std::string &name = "team")
{
    int self = onespace_init();
    int number = self < 0 ? self : onespace_number();
    if (number < 0)
        throw std::system_error(
            -number, std::generic_category(),
            "onespace::sync::from_space: the caller is not a numbered task of a "
            "space; start it with `onespace run -n N`");
    int ntasks = onespace_ntasks();
    auto base = std::make_unique<detail::space_backing>(name);
    auto *keep = base.get();
    auto controls = base->make_controls(number, ntasks);
    team made(std::move(base), number, std::move(controls));
    made.exchange(number); // all ranks have found each other
    keep->forget_name();
    made.exchange(number); // no rank can mistake this name for the next team's
    return made;
}

} // namespace onespace::sync

#endif
