// tests/xpmem/outside_test.cpp: which library a task gets, and what it does outside a space.
#include <sys/ioctl.h>

#include "user.hpp"

using namespace fixture;

using xpmem_library = SpaceTest;
using xpmem_commands = SpaceTest;

namespace
{

// The module's commands as its library writes them.
struct MakeCommand {
    uint64_t address, size;
    int permit_type;
    uint64_t permit_value;
    int64_t segid;
};
struct GetCommand {
    int64_t segid;
    int flags, permit_type;
    uint64_t permit_value;
    int64_t apid;
};
struct AttachCommand {
    int64_t apid, offset;
    uint64_t size, address;
    int fd, flags;
};

int command(unsigned number, void *argument)
{
    return xpmem_ioctl(static_cast<int>(_IO('x', number)), argument);
}

bool has_module()
{
    return access("/dev/xpmem", F_OK) == 0;
}

} // namespace

TEST_F(xpmem_library, tells_its_version)
{
    EXPECT_EQ(xpmem_version(), 0x00027004);
    EXPECT_EQ(xpmem_init(), 0);
    EXPECT_EQ(User().tell("version"), gives(0x00027004));
}

TEST_F(xpmem_library, is_found_by_its_name_in_tasks)
{
    EXPECT_EQ(as_task({program("opens"), "libxpmem.so.0"}), exits("0x27004 0\n"));
}

// Wherever the module's library is installed, and a program looks for it: that one would map.
TEST_F(xpmem_library, is_found_by_any_path_in_tasks)
{
    EXPECT_EQ(as_task({program("opens"), "/opt/cray/xpmem/lib64/libxpmem.so.0"}),
              exits("0x27004 0\n"));
}

TEST_F(xpmem_library, is_found_by_its_whole_name_alone)
{
    EXPECT_EQ(as_task({program("opens"), "xlibxpmem.so.0"}), exits("not found\n"));
    EXPECT_EQ(as_task({program("opens"), "libxpmem.so.00"}), exits("not found\n"));
}

TEST_F(xpmem_library, is_not_forced_on_what_tasks_execute)
{
    EXPECT_EQ(as_task({program("opens"), "libxpmem.so.0", "exec"}),
              as_process({program("opens"), "libxpmem.so.0"}));
}

TEST_F(xpmem_library, without_interposition_is_not_found_by_name)
{
    auto not_interposed = [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_NO_INTERPOSE; };
    EXPECT_EQ(as_task({program("opens"), "libxpmem.so.0"}, not_interposed),
              as_process({program("opens"), "libxpmem.so.0"}));
    // A program that is linked to it can use it.
    User owner("xpmem", not_interposed), other;
    owner.share(1, 3);
    long long apid = other.tell("get", owner.segid, XPMEM_RDWR).result;
    EXPECT_EQ(other.tell("attach", apid, 0, Page), gives(owner.memory));
}

TEST_F(xpmem_library, serves_musl_programs)
{
    if (!is_built("xpmem-musl"))
        GTEST_SKIP() << "musl-gcc is not installed (package musl-tools)";
    User owner("xpmem-musl"), other;
    owner.share(2, 33);
    long long apid = other.tell("get", owner.segid, XPMEM_RDWR).result;
    EXPECT_EQ(other.tell("attach", apid, Page, Page),
              gives(owner.memory + static_cast<long long>(Page)));
    EXPECT_EQ(owner.tell("remove", 12345), fails(ENOENT));
    EXPECT_EQ(owner.finish().status, 0);
    EXPECT_EQ(get(owner.segid), fails(ENOENT));
}

TEST_F(xpmem_library, outside_a_space_fails_as_without_the_module)
{
    if (has_module())
        GTEST_SKIP() << "here the kernel module serves processes";
    Process process({program("xpmem")});
    auto tell = [&](const std::string &words) {
        return Outcome(as_process({"sh", "-c", "echo " + words + " | " + program("xpmem")}));
    };
    EXPECT_EQ(tell("make 0 4096 0600"), exits("-1 2\n"));
    EXPECT_EQ(tell("get 12345 2"), exits("-1 2\n"));
    EXPECT_EQ(tell("attach 12345 0 4096"), exits("-1 2\n"));
    EXPECT_EQ(tell("detach 0"), exits("-1 2\n"));
    EXPECT_EQ(tell("release 12345"), exits("-1 2\n"));
    EXPECT_EQ(tell("remove 12345"), exits("-1 2\n"));
    EXPECT_EQ(tell("version"), exits("-1 2\n"));
    EXPECT_EQ(tell("init"), exits("-1 2\n"));
    EXPECT_EQ(process.finish().status, 0);
}

TEST_F(xpmem_library, of_a_root_without_a_space_fails_as_without_the_module)
{
    if (has_module())
        GTEST_SKIP() << "here the kernel module serves processes";
    ASSERT_EQ(onespace_fini(), 0);
    EXPECT_EQ(make(nullptr, Page), fails(ENOENT));
    ASSERT_EQ(onespace_init(), 0);
    EXPECT_GT(make(nullptr, Page).result, 0);
}

TEST_F(xpmem_commands, serves_the_modules_commands)
{
    Memory memory(2, 5);
    MakeCommand made = {reinterpret_cast<uint64_t>(memory.at()), 2 * Page, XPMEM_PERMIT_MODE, 0600,
                        0};
    ASSERT_EQ(command(1, &made), 0);
    GetCommand got = {made.segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0, 0};
    ASSERT_EQ(command(3, &got), 0);
    AttachCommand attached = {got.apid, Page, Page, 0, -1, 0};
    ASSERT_EQ(command(5, &attached), 0);
    EXPECT_EQ(attached.address, reinterpret_cast<uint64_t>(memory.at(Page)));
    EXPECT_EQ(command(6, &attached.address), 0);
    EXPECT_EQ(command(4, &got.apid), 0);
    EXPECT_EQ(command(2, &made.segid), 0);
    EXPECT_EQ(command(0, nullptr), 0x00027004);
}

TEST_F(xpmem_commands, refuses_as_the_calls_do)
{
    MakeCommand made = {0, 0, XPMEM_PERMIT_MODE, 0600, 77};
    errno = 0;
    EXPECT_EQ(command(1, &made), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(made.segid, 77);
    GetCommand got = {12345, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0600, 0};
    EXPECT_EQ(command(3, &got), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(command(99, nullptr), -1);
    EXPECT_EQ(errno, ENOTTY);
}
