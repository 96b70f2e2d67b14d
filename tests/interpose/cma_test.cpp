// tests/interpose/cma_test.cpp: process_vm_readv and process_vm_writev between members do what the
// system call does between processes. The guest copies.c is run both ways.
#include <sys/mman.h>
#include <sys/uio.h>

#include <sstream>

#include "fixture.hpp"

using namespace fixture;

using copies = SpaceTest;

static Words with_places(const std::string &scene, const std::string &guest,
                         const std::string &line)
{
    Words words = {program(guest), scene};
    std::istringstream stream(line);
    for (std::string word; stream >> word;)
        words.push_back(word);
    return words;
}

static Words with_places(const std::string &scene, const std::string &line)
{
    return with_places(scene, "copies", line);
}

static std::vector<std::string> lines(const std::string &text)
{
    std::vector<std::string> result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
        result.push_back(line);
    return result;
}

// Line by line, so that a difference names its case.
static void expect_same(const Outcome &got, const Outcome &wanted)
{
    std::vector<std::string> is = lines(got.output), should = lines(wanted.output);
    for (size_t i = 0; i < is.size() && i < should.size(); i++)
        EXPECT_EQ(is[i], should[i]);
    EXPECT_EQ(is.size(), should.size()) << "after " << (is.empty() ? "nothing" : is.back());
    EXPECT_EQ(got.status, wanted.status);
}

static Outcome check_between_processes()
{
    Process server({program("copies"), "serve"});
    Outcome wanted = as_process(with_places("check", server.line()));
    server.finish();
    EXPECT_EQ(wanted.status, 0) << wanted;
    EXPECT_GT(lines(wanted.output).size(), 100u) << wanted;
    return wanted;
}

TEST_F(copies, between_tasks_are_as_between_processes)
{
    Task server({program("copies"), "serve"});
    Task client(with_places("check", server.line()));
    Outcome got = client.finish();
    EXPECT_EQ(server.finish().status, 0);
    expect_same(got, check_between_processes());
}

TEST_F(copies, from_and_to_the_root_are_as_between_processes)
{
    // The root has the same memory laid out as the guest's server.
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
    char *area = static_cast<char *>(mmap(nullptr, 17 * 4096, both, flags, -1, 0));
    mprotect(area + 16 * 4096, 4096, PROT_NONE);
    void *read_only = mmap(nullptr, 4096, PROT_READ, flags, -1, 0);
    void *no_access = mmap(nullptr, 4096, PROT_NONE, flags, -1, 0);
    Descriptor file(memfd_create("cut", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(file.get(), 4096), 0);
    void *cut_file = mmap(nullptr, 8192, both, MAP_SHARED, file.get(), 0);
    std::ostringstream line;
    line << getpid() << ' ' << static_cast<void *>(area) << ' ' << read_only << ' ' << no_access
         << ' ' << cut_file;
    expect_same(as_task(with_places("check", line.str())), check_between_processes());
}

TEST_F(copies, between_members_need_no_system_call)
{
    Task server({program("copies"), "serve"});
    Task client(with_places("check", server.line()));
    while (!client.line().empty())
        ;
    onespace_status status = {};
    EXPECT_EQ(client.wait(&status), 0);
    EXPECT_GT(status.copies, 8000u); // those of the threads alone
    EXPECT_GT(status.copied_bytes, 8000u * 4000);
    EXPECT_GT(status.kernel_copies, 0u); // what was wrong, and other targets
    EXPECT_LT(status.kernel_copies, 1000u);
}

TEST_F(copies, to_oneself_need_no_system_call)
{
    Task task({program("copies"), "oneself", "100"});
    onespace_status status = {};
    EXPECT_EQ(task.wait(&status), 0);
    EXPECT_EQ(status.copies, 0u); // between members only
    EXPECT_EQ(status.kernel_copies, 0u);
}

TEST_F(copies, from_an_ended_task_find_no_process)
{
    Task server({program("copies"), "serve"});
    std::string line = server.line();
    EXPECT_EQ(server.finish().status, 0);
    EXPECT_EQ(as_task(with_places("dead", line)), exits("-1 No such process\n"));
}

TEST_F(copies, from_a_task_that_executed_another_program_go_there)
{
    Task server({"sh", "-c", "exec " + program("copies") + " serve"});
    Outcome got = as_task(with_places("check", server.line()));
    EXPECT_EQ(server.finish().status, 0);
    expect_same(got, check_between_processes());
}

TEST_F(copies, from_a_task_that_executed_unseen_find_nothing_of_it)
{
    for (const char *guest : {"copies", "copies-static"}) {
        Task server({program(guest), "execute-unseen"});
        Words words = with_places("dead", server.line());
        server.write_line("execute");
        server.write_line("executed");
        EXPECT_EQ(server.line(), "executed");
        EXPECT_EQ(as_task(words), exits("-1 Bad address\n")) << guest;
        EXPECT_EQ(server.finish().status, 0);
    }
}

TEST_F(copies, with_a_process_outside_the_space_are_the_kernels)
{
    Process server({program("copies"), "serve"});
    Outcome got = as_task(with_places("check", server.line()));
    server.finish();
    expect_same(got, check_between_processes());
}

// The target is killed again and again while it is read.
TEST_F(copies, survive_the_targets_death)
{
    for (int i = 0; i < 15; i++) {
        Task server({program("copies"), "serve"});
        Task client(with_places("hammer", server.line()));
        EXPECT_EQ(client.line(), "copying");
        sleep_ms(i % 5);
        server.kill_and_wait();
        EXPECT_EQ(client.finish(), exits("No such process\n"));
    }
}

// The target is killed in the middle of a copy, and another task starts.
TEST_F(copies, reach_no_task_but_the_target)
{
    Task target({program("copies"), "target"});
    Task writer(with_places("stopped-writer", target.line()));
    ASSERT_EQ(writer.line(), "stopped");
    target.kill_and_wait();
    Task next({program("copies"), "target"});
    EXPECT_NE(next.line(), "");
    writer.write_line("go");
    EXPECT_EQ(writer.finish(), exits("268435456 bytes\n"));
    EXPECT_EQ(next.finish(), exits("0 pages changed\n"));
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

// A process has no memory at the addresses of another one: the kernel says so. Tasks have one
// memory.
TEST_F(copies, to_an_address_that_is_not_the_targets_are_refused)
{
    Process process({program("addresses"), "owner"});
    Outcome wanted = as_process(with_places("stranger", "addresses", process.line()));
    EXPECT_NE(wanted.output.find("my heap, write: -1 Bad address\n"), std::string::npos) << wanted;
    EXPECT_NE(wanted.output.find("first its, then mine: 8\n"), std::string::npos) << wanted;
    Task owner({program("addresses"), "owner"});
    std::string places = owner.line();
    expect_same(as_task(with_places("stranger", "addresses", places)), wanted);
    owner.write_line("");
    EXPECT_EQ(owner.line(), "42 42");
}

// Memory of a third task is the target's while that holds it, and not while it copies itself.
TEST_F(copies, from_memory_that_the_target_has_imported_are_allowed)
{
    Task owner({program("addresses"), "owner"});
    Task user({program("addresses"), "user", std::to_string(owner.id())});
    std::istringstream places(owner.line());
    std::string pid, word;
    places >> pid >> word;
    Words of = {program("addresses"), "of", user.line(), word};
    EXPECT_EQ(as_task(of), exits("of: -1 Bad address\nit is -1\n"));
    user.write_line("import");
    EXPECT_EQ(user.line(), "0");
    EXPECT_EQ(as_task(of), exits("of: 8\nit is 1\n"));
    user.write_line("release");
    EXPECT_EQ(user.line(), "0");
    EXPECT_EQ(as_task(of), exits("of: -1 Bad address\nit is -1\n"));
}

// UCX gives up such copies where reading at address 0 is refused by another error than EFAULT.
TEST_F(copies, are_answered_as_without_a_filter_that_forbids_them)
{
    Process process({program("addresses"), "owner"});
    Outcome wanted = as_process(with_places("filtered", "addresses", "0 " + process.line()));
    EXPECT_TRUE(wanted.output.starts_with("null: -1 Bad address\n")) << wanted;
    Task owner({program("addresses"), "owner"});
    std::string places = owner.line();
    expect_same(as_task(with_places("filtered", "addresses", "0 " + places)), wanted);
    expect_same(as_task(with_places("filtered", "addresses", "1 " + places)), wanted);
}
