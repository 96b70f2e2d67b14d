// tests/spawn/inherit_test.cpp: what a task has from its spawner, as by fork and exec.
#include <sched.h>
#include <sys/stat.h>

#include <sstream>

#include "fixture.hpp"

using namespace fixture;

using inherit = SpaceTest;

static auto with_descriptors(onespace_fd_map *fds, size_t count)
{
    return [=](Attr &attr) {
        attr.fds = fds;
        attr.fd_count = count;
    };
}

static Words state(const std::string &scene)
{
    return {program("state"), scene};
}

TEST_F(inherit, descriptors_without_close_on_exec)
{
    Descriptor kept(dup(2)), closed(fcntl(2, F_DUPFD_CLOEXEC, 0));
    int high = fcntl(2, F_DUPFD, 400);
    std::string text = as_task(state("fds")).output;
    EXPECT_NE((" " + text).find(" " + std::to_string(kept.get()) + " "), std::string::npos) << text;
    EXPECT_EQ((" " + text).find(" " + std::to_string(closed.get()) + " "), std::string::npos)
        << text;
    EXPECT_NE((" " + text).find(" " + std::to_string(high) + " "), std::string::npos) << text;
    EXPECT_EQ(text, as_process(state("fds")).output);
    close(high);
}

TEST_F(inherit, only_the_listed_descriptors_with_close_fds)
{
    Descriptor open(dup(2));
    EXPECT_EQ(
        as_task(state("fds"), [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_CLOSE_FDS; }).output,
        "0 1 2 \n");
}

TEST_F(inherit, descriptors_whose_numbers_are_exchanged)
{
    Pipe first, second;
    int a = first.write_end.get(), b = second.write_end.get();
    std::string script = "echo one >&" + std::to_string(a) + "; echo two >&" + std::to_string(b);
    onespace_fd_map fds[] = {{a, b}, {b, a}};
    EXPECT_EQ(spawn_task({"sh", "-c", script}, with_descriptors(fds, 2)).wait(), 0);
    EXPECT_EQ(read_line(first.read_end.get()), "two");
    EXPECT_EQ(read_line(second.read_end.get()), "one");
}

TEST_F(inherit, a_descriptor_map_onto_itself_survives_close_on_exec)
{
    Pipe pipe;
    int fd = pipe.write_end.get();
    onespace_fd_map fds[] = {{fd, fd}};
    std::string script = "echo here >&" + std::to_string(fd);
    EXPECT_EQ(spawn_task({"sh", "-c", script}, with_descriptors(fds, 1)).wait(), 0);
    EXPECT_EQ(read_line(pipe.read_end.get()), "here");
}

TEST_F(inherit, descriptors_that_are_the_tasks_own)
{
    Pipe pipe;
    int fd = pipe.write_end.get();
    Task task({"sh", "-c", "exec " + std::to_string(fd) + ">&-; echo closed; read line"});
    EXPECT_EQ(task.line(), "closed");
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(task.finish().status, 1 << 8);
}

TEST_F(inherit, the_working_directory)
{
    ASSERT_EQ(chdir("/usr"), 0);
    EXPECT_EQ(as_task(state("directory")), exits("/usr\n"));
}

TEST_F(inherit, a_working_directory_that_was_given)
{
    Descriptor directory(open("/usr/bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(as_task(state("directory"), [&](Attr &attr) { attr.directory = directory.get(); }),
              exits("/usr/bin\n"));
}

TEST_F(inherit, a_working_directory_that_is_the_tasks_own)
{
    ASSERT_EQ(chdir("/usr"), 0);
    EXPECT_EQ(as_task({"sh", "-c", "cd /; umask 0; pwd"}), exits("/\n"));
    EXPECT_EQ(std::filesystem::current_path(), "/usr");
}

TEST_F(inherit, the_umask)
{
    mode_t old = umask(0051);
    EXPECT_EQ(as_task(state("umask")), exits("051\n"));
    EXPECT_EQ(as_task(state("umask"), [](Attr &attr) { attr.umask = 0246; }), exits("246\n"));
    EXPECT_EQ(umask(old), 0051u);
}

TEST_F(inherit, limits_that_changed_after_the_space_was_made)
{
    Limit files(RLIMIT_NOFILE, 333), core(RLIMIT_CORE, 0);
    expect_same(state("limits"));
}

TEST_F(inherit, limits_that_were_given)
{
    Limits limits = all_limits();
    limits[RLIMIT_NOFILE].rlim_cur = 77;
    limits[RLIMIT_CPU].rlim_cur = 1000;
    std::ostringstream expected;
    for (int i = 0; i < static_cast<int>(RLIM_NLIMITS); i++)
        expected << i << ' ' << limits[i].rlim_cur << ' ' << limits[i].rlim_max << '\n';
    EXPECT_EQ(as_task(state("limits"), [&](Attr &attr) { attr.limits = limits.data(); }),
              exits(expected.str()));
}

TEST_F(inherit, the_cpu_affinity)
{
    cpu_set_t all, single;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    if (CPU_COUNT(&all) < 2)
        GTEST_SKIP() << "needs two CPUs";
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &all))
        last--;
    CPU_ZERO(&single);
    CPU_SET(last, &single);
    EXPECT_EQ(as_task(state("cpus"),
                      [&](Attr &attr) { attr.cpus = &single, attr.cpus_size = sizeof(single); }),
              exits(std::to_string(last) + " \n"));
    ASSERT_EQ(sched_setaffinity(0, sizeof(single), &single), 0);
    EXPECT_EQ(as_task(state("cpus")), exits(std::to_string(last) + " \n"));
}

TEST_F(inherit, the_environment)
{
    setenv("ONESPACE_TEST_WORD", "as it is = now", 1);
    expect_same(state("environment"));
}

TEST_F(inherit, an_environment_that_was_given)
{
    Pipe pipe;
    onespace_fd_map fds[] = {{pipe.write_end.get(), 1}};
    Words environment = {"A=1", "EMPTY="};
    EXPECT_EQ(
        spawn_task(state("environment"), with_descriptors(fds, 1), pointers(environment).data())
            .wait(),
        0);
    pipe.write_end.reset();
    EXPECT_EQ(read_all(pipe.read_end.get()), "A=1\nEMPTY=\n");
}

TEST_F(inherit, the_nice_value)
{
    EXPECT_EQ(as_task(state("nice"), [](Attr &attr) { attr.nice = 7; }), exits("7\n"));
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);
    EXPECT_EQ(as_task(state("nice")), exits("5\n"));
}

TEST_F(inherit, a_name_from_the_program)
{
    EXPECT_EQ(as_task(state("name")), exits("state\n"));
}

TEST_F(inherit, the_signal_mask)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, nullptr);
    expect_same(state("signals"));
}

TEST_F(inherit, signals_that_are_ignored)
{
    std::string expected;
    for (int number : {SIGHUP, SIGTERM, SIGCHLD, SIGSEGV, SIGBUS})
        signal(number, SIG_IGN);
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        sigaction(number, nullptr, &action);
        if (action.sa_handler == SIG_IGN)
            expected += std::to_string(number) + " ignored\n";
    }
    EXPECT_EQ(as_task(state("signals")), exits(expected));
}

TEST_F(inherit, signals_that_were_ignored_before_the_space_but_no_longer)
{
    ASSERT_EQ(onespace_fini(), 0);
    signal(SIGHUP, SIG_IGN);
    ASSERT_EQ(onespace_init(), 0);
    signal(SIGHUP, SIG_DFL);
    expect_same(state("signals"));
}

TEST_F(inherit, no_signal_handlers)
{
    signal(SIGUSR1, [](int) {});
    signal(SIGSEGV, [](int) {});
    expect_same(state("signals"));
}

TEST_F(inherit, what_a_task_changed_goes_to_the_tasks_it_spawns)
{
    Words spawn_state = {program("member"), "changed-spawn", program("state")};
    auto with = [&](const std::string &scene) {
        Words words = spawn_state;
        words.push_back(scene);
        return as_task(words).output;
    };
    EXPECT_EQ(with("directory"), "/usr\n");
    EXPECT_EQ(with("umask"), "051\n");
    EXPECT_EQ(with("nice"), "3\n");
    EXPECT_NE(with("signals").find(std::to_string(SIGHUP) + " ignored"), std::string::npos);
    EXPECT_NE(with("limits").find(std::to_string(RLIMIT_NOFILE) + " 222 "), std::string::npos);
}

TEST_F(inherit, a_process_group_of_its_own_when_asked)
{
    EXPECT_EQ(as_task(state("group")), exits("shared\n"));
    EXPECT_EQ(as_task(state("group"), [](Attr &attr) { attr.flags |= ONESPACE_SPAWN_GROUP; }),
              exits("own\n"));
}
