// tests/spawn/refusal_test.cpp: what cannot be a task is refused with the reason, and leaves
// nothing.
#include <elf.h>
#include <sys/stat.h>

#include "as_guarded.h"
#include "fixture.hpp"

using namespace fixture;

// A directory for the files of a test.
class refusal : public SpaceTest
{
  protected:
    void SetUp() override
    {
        SpaceTest::SetUp();
        directory = testing::TempDir() + "onespace-refusal." + std::to_string(getpid());
        std::filesystem::create_directory(directory);
        (void)as_task({"true"});
        EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
        before = Footprint::now();
    }
    void TearDown() override
    {
        expect_flat(before);
        std::filesystem::remove_all(directory);
        SpaceTest::TearDown();
    }

    std::string file(const std::string &name, const std::string &contents, mode_t mode = 0755)
    {
        std::string path = directory + "/" + name;
        std::ofstream(path) << contents;
        chmod(path.c_str(), mode);
        return path;
    }

    // The error; the message must say which file and contain the words.
    int refused(const std::string &path, const std::string &words,
                const std::function<void(Attr &)> &change = nullptr)
    {
        Spawned spawned = spawn_task({path}, change);
        EXPECT_NE(spawned.message.find(path), std::string::npos) << spawned.message;
        EXPECT_NE(spawned.message.find(words), std::string::npos) << spawned.message;
        EXPECT_EQ(spawned.message.find('\n'), std::string::npos) << spawned.message;
        return spawned.id;
    }

    std::string directory;
    Footprint before;
};

TEST_F(refusal, of_files_that_cannot_run)
{
    const std::string elf_of_32_bits = std::string("\x7f"
                                                   "ELF\x01\x01\x01",
                                                   7) +
                                       std::string(100, 'x');
    EXPECT_EQ(refused(directory + "/nothing", ""), -ENOENT);
    EXPECT_EQ(refused("no-such-command-anywhere", ""), -ENOENT);
    EXPECT_EQ(refused("", ""), -ENOENT);
    EXPECT_EQ(refused(file("data", "text", 0644), ""), -EACCES);
    EXPECT_EQ(refused(directory, "directory"), -EACCES);
    EXPECT_EQ(refused(file("data", "text") + "/below", ""), -ENOTDIR);
    EXPECT_EQ(refused(file("other", elf_of_32_bits), ""), -ENOEXEC);
    EXPECT_EQ(refused(program("fixed"), "position"), -ENOEXEC);
    EXPECT_EQ(refused(file("script", "#!/no/such/interpreter\n"), "/no/such/interpreter"), -ENOENT);
}

TEST_F(refusal, of_bad_attributes)
{
    std::string path = "/bin/true";
    auto spawn_with = [&](const std::function<void(Attr &)> &change) {
        return spawn_task({path}, change).id;
    };
    onespace_fd_map fds[] = {{-1, 0}};
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.size--; }), -EINVAL);
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.size = 0; }), -EINVAL);
    EXPECT_EQ(spawn_with([&](Attr &attr) { attr.fds = fds, attr.fd_count = 1; }), -EINVAL);
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.fd_count = 1; }), -EINVAL);
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.number = 2, attr.ntasks = 2; }), -EINVAL);
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.number = -2; }), -EINVAL);
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.stack_size = SIZE_MAX; }), -EINVAL);
    EXPECT_EQ(spawn_with([](Attr &attr) { attr.flags = 1u << 30; }), -EINVAL);
    EXPECT_EQ(onespace_spawn(nullptr, pointers({path}).data(), nullptr, nullptr), -EINVAL);
    EXPECT_EQ(onespace_spawn(path.c_str(), nullptr, nullptr, nullptr), -EINVAL);
}

// It would be guarded, and so the flags are those that a guarded task refuses when it is asked for
// by name.
TEST_F(refusal, of_what_a_guarded_task_cannot_make_guarded)
{
    for (unsigned flag :
         {ONESPACE_SPAWN_NO_INTERPOSE, ONESPACE_SPAWN_THREAD, ONESPACE_SPAWN_CALLS}) {
        begin_as_guarded();
        int result = refused("/bin/true", "would be guarded, since the task that spawns it is",
                             [&](Attr &attr) { attr.flags = flag; });
        end_as_guarded();
        EXPECT_EQ(result, -EINVAL) << flag;
        auto guarded = [&](Attr &attr) { attr.flags = flag | ONESPACE_SPAWN_GUARD; };
        EXPECT_EQ(spawn_task({"/bin/true"}, guarded).id, -EINVAL);
    }
    EXPECT_EQ(as_task({"true"}).status, 0) << "of one that is not guarded";
}

TEST_F(refusal, of_descriptors_that_are_not_open)
{
    onespace_fd_map fds[] = {{999, 0}};
    EXPECT_EQ(
        refused("/bin/true", "descriptors", [&](Attr &attr) { attr.fds = fds, attr.fd_count = 1; }),
        -EBADF);
}

TEST_F(refusal, of_a_working_directory_that_is_none)
{
    Descriptor file(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(
        refused("/bin/true", "working directory", [&](Attr &attr) { attr.directory = file.get(); }),
        -ENOTDIR);
    EXPECT_EQ(refused("/bin/true", "working directory", [&](Attr &attr) { attr.directory = 999; }),
              -EBADF);
}

TEST_F(refusal, of_limits_that_cannot_be)
{
    Limits limits = all_limits();
    limits[RLIMIT_CPU] = {10, 5};
    EXPECT_EQ(refused("/bin/true", "limits", [&](Attr &attr) { attr.limits = limits.data(); }),
              -EINVAL);
}

TEST_F(refusal, of_cpus_that_are_not_there)
{
    cpu_set_t none;
    CPU_ZERO(&none);
    EXPECT_EQ(refused("/bin/true", "affinity",
                      [&](Attr &attr) { attr.cpus = &none, attr.cpus_size = sizeof(none); }),
              -EINVAL);
}

TEST_F(refusal, of_arguments_that_are_too_long)
{
    std::string huge(1 << 20, 'x');
    auto with_stack = [](Attr &attr) { attr.stack_size = 1 << 20; };
    EXPECT_EQ(spawn_task({"/bin/true", huge}, with_stack).id, -E2BIG);
}

// A static program with so many bytes of read-only zeroes, which are not accounted.
static std::string program_of(uint64_t bytes)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr code, data;
    } file = {};
    constexpr size_t page = 65536; // a multiple of any
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_ident[EI_DATA] = ELFDATA2LSB;
    file.header.e_ident[EI_VERSION] = EV_CURRENT;
    file.header.e_type = ET_DYN;
#ifdef __aarch64__
    file.header.e_machine = EM_AARCH64;
#else
    file.header.e_machine = EM_X86_64;
#endif
    file.header.e_version = EV_CURRENT;
    file.header.e_phoff = sizeof(file.header);
    file.header.e_phentsize = sizeof(file.code);
    file.header.e_phnum = 2;
    file.header.e_entry = sizeof(file);
    file.code = {PT_LOAD, PF_R | PF_X, 0, 0, 0, page, page, page};
    file.data = {PT_LOAD, PF_R, 0, page, page, 0, bytes, page};
    std::string text(reinterpret_cast<const char *>(&file), sizeof(file));
    text.resize(page);
    return text;
}

TEST_F(refusal, of_programs_that_are_larger_than_a_tasks_range)
{
    for (uint64_t gib : {28, 30, 60})
        EXPECT_EQ(refused(file("large", program_of(gib << 30)), "File too large"), -EFBIG) << gib;
    EXPECT_EQ(as_task({"true"}).status, 0) << "its range was free";
}

TEST_F(refusal, for_want_of_descriptors)
{
    int lowest = dup(2); // descriptors up to here are in use
    close(lowest);
    Limit none(RLIMIT_NOFILE, static_cast<rlim_t>(lowest));
    EXPECT_EQ(refused("/bin/true", ""), -EMFILE);
}

TEST_F(refusal, of_anything_before_the_space_is_made)
{
    ASSERT_EQ(onespace_fini(), 0);
    EXPECT_EQ(spawn_task({"/bin/true"}).id, -EPERM);
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 0), -EPERM);
    EXPECT_EQ(onespace_self(), -EPERM);
    ASSERT_EQ(onespace_init(), 0);
}

TEST_F(refusal, leaves_nothing_however_often)
{
    Descriptor text(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    for (int i = 0; i < 200; i++) {
        ASSERT_EQ(refused(directory + "/nothing", ""), -ENOENT);
        ASSERT_EQ(refused("/bin/true", "", [&](Attr &attr) { attr.directory = text.get(); }),
                  -ENOTDIR);
    }
    EXPECT_EQ(onespace_wait(ONESPACE_ANY, nullptr, 0), -ECHILD);
}
