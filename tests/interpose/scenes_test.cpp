// tests/interpose/scenes_test.cpp: programs that do the same as a process and as a task: handlers
// of their own for SIGSEGV and SIGBUS, children made in every way, the program break, mappings,
// unwinding.
#include "fixture.hpp"

using namespace fixture;

namespace
{

struct Scene {
    std::string name; // of the test
    Words words;      // the guest and its arguments
    std::string part; // of the output
    int status = 0;
};

class scene : public SpaceTest, public testing::WithParamInterface<Scene>
{
};

// A scene of that guest, which gives the test its name.
Scene of(const std::string &guest, const std::string &name, const std::string &part, int status = 0)
{
    return {name, {program(guest), name}, part, status};
}

Scene of_children(const std::string &name, const std::string &part)
{
    return of("children", name, part);
}

// The guest's children execute the guest `state`.
Scene of_signals(const std::string &name, const std::string &part, int status = 0)
{
    return {name, {program("signals"), name, program("state")}, part, status};
}

} // namespace

TEST_P(scene, is_the_same_as_a_process)
{
    Outcome process = expect_same(GetParam().words);
    EXPECT_NE(process.output.find(GetParam().part), std::string::npos) << process.output;
    EXPECT_EQ(process.status, GetParam().status);
}

INSTANTIATE_TEST_SUITE_P(
    children, scene,
    testing::Values(
        of_children("fork", "exit 42\nparent 1\n"), of_children("fork-grandchild", "exit 6\n"),
        of_children("fork-crash", "signal 11\n"), of_children("fork-beside-threads", "fine\n"),
        of_children("vfork", "exit 99\n"), of_children("vfork-killed", "goes on\n"),
        of_children("posix-spawn", "No such file or directory\n"),
        of_children("system", "exit 23\n"), of_children("popen", "from the pipe\nexit 24\n"),
        of_children("robust", "owner died\nowner died\nowner died\n"),
        of_children("robust-shared", "owner died\n")),
    by_name);

INSTANTIATE_TEST_SUITE_P(
    signals, scene,
    testing::Values(
        of_signals("remember", "11 note flags 48000004 mask 010"),
        of_signals("address", "5 times, signal 11"),
        of_signals("bus", "1 times, signal 7, code 2, address right"),
        of_signals("repair", "100 times"),
        of_signals("alternate-stack",
                   "1 times, on the alternate stack 1\n2 times, on the alternate stack 0"),
        of_signals("reset", "11 default", SIGSEGV), of_signals("nodefer", "2 times, mask 0"),
        of_signals("fault-in-handler", "", SIGSEGV), of_signals("mask", "mask 3\nrestored 0"),
        of_signals("ignored-fault", "ignored", SIGSEGV), of_signals("blocked-fault", "", SIGSEGV),
        of_signals("raised", "1 times, code -6\n2 times, code -1\n3 times, signal 11", SIGSEGV),
        of_signals("abort", "", SIGABRT), of_signals("thread-fault", "", SIGSEGV),
        of_signals("children", "child's handler 1 times"),
        of_signals("bad-pointers", "readlink -1 Bad address"),
        of_signals("bad-pointers-blocked", "readlink -1 Bad address"),
        of_signals("bad-pointers-ignored", "readlink -1 Bad address"),
        of_signals("bad-pointers-of-child", "readlink -1 Bad address"),
        of_signals("ignored-while-asleep", "poll 1\npoll 1\n"),
        of_signals("vfork-resets", "1 times, then signal 11\n11 note")),
    by_name);

INSTANTIATE_TEST_SUITE_P(
    memory, scene,
    testing::Values(
        of("memory", "sbrk", "fine\n"), of("memory", "sbrk-steps", "fine\n"),
        of("memory", "outside", "mapped\n"),
        // The bound that docs/memory.md gives.
        Scene{"sbrk-kept", {program("memory"), "sbrk-kept", "32"}, "fine\n"},
        Scene{"allocate", {program("memory"), "allocate", "64", "8"}, "wrong 0\n"},
        Scene{"filtered-by-prctl", {program("sbrk"), "filtered", "prctl"}, "allocated\n"},
        Scene{"filtered-by-seccomp", {program("sbrk"), "filtered", "seccomp"}, "allocated\n"},
        of("mappings", "mremap", ""), of("mappings", "ring", ""), of("mappings", "huge", ""),
        of("mappings", "sealed", "")),
    by_name);

INSTANTIATE_TEST_SUITE_P(
    process, scene,
    testing::Values(
        Scene{"exit-group", {program("exits")}, "", 3 << 8},
        Scene{"arguments-of-a-child", {program("own_files"), "child", "word"}, "word"},
        of("own_files", "errors", "fault -1 Bad address\n"), of("exe", "origin", "1\n"),
        Scene{"again", {program("exe"), "again", "this"}, "myself runs again with this\n", 17 << 8},
        of("exe", "child", "myself runs again with a child\n", 17 << 8),
        of("exe", "read", std::filesystem::canonical(ONESPACE_TEST_PROGRAMS).string() + "/exe\n")),
    by_name);

#ifdef __x86_64__ // the guest steps through its own code
INSTANTIATE_TEST_SUITE_P(
    unwinding, scene,
    testing::Values(of("unwinds", "backtraces", "stepped: 0 of the backtraces end early\n"),
                    of("unwinds", "exceptions", "stepped: all exceptions were caught\n"),
                    of("unwinds", "cancellation", "200 of 200 destructors ran\n")),
    by_name);
#endif
