// tests/interpose/files_test.cpp: the space knows the present content of a file, and all its code.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>

#include "fixture.hpp"

using namespace fixture;

using files = SpaceTest;

namespace
{

// Writes the guest into the file, which keeps its inode, and sets its size and time, as a tool does
// that makes builds reproducible.
void write_guest(const std::string &guest, const std::string &path)
{
    std::ifstream from(program(guest), std::ios::binary);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << from.rdbuf();
    std::filesystem::permissions(path, std::filesystem::perms::all);
    std::filesystem::resize_file(path, 100000);
    const timespec times[2] = {{1, 0}, {1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

const char *const Cache = "/etc/ld.so.cache";

// A cache of that size in which glibc's dynamic linker finds one library: its header, an entry, the
// strings. (sysdeps/generic/dl-cache.h)
std::string cache_of(const std::string &name, const std::string &path, size_t size)
{
#ifdef __x86_64__
    const uint32_t kind = 0x303; // for 64 bits and this libc
#else
    const uint32_t kind = 0xa03;
#endif
    const uint32_t names = 48 + 24, paths = names + uint32_t(name.size()) + 1;
    const uint32_t words[] = {1, uint32_t(size) - names, 0, 0, 0, 0, 0, kind, names, paths, 0, 0,
                              0};
    std::string text = "glibc-ld.so.cache1.1";
    text.append(reinterpret_cast<const char *>(words), sizeof(words));
    text += name + '\0' + path + '\0';
    text.resize(size);
    return text;
}

// Runs as the task, before its program: 0 or an error.
int bind_over_cache(void *path)
{
    bool is_bound = unshare(CLONE_NEWNS) == 0 &&
                    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    mount(static_cast<const char *>(path), Cache, nullptr, MS_BIND, nullptr) == 0;
    return is_bound ? 0 : errno;
}

bool can_bind(std::string &path)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(bind_over_cache(path.data()) != 0);
    return waitpid(child, &status, 0) == child && status == 0;
}

bool is_mapped(const std::string &path)
{
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.ends_with(path))
            return true;
    return false;
}

} // namespace

TEST_F(files, rewritten_in_place_are_searched_again)
{
    std::string path = testing::TempDir() + "onespace-rewritten." + std::to_string(getpid());
    for (int i = 0; i < 3; i++) {
        write_guest("rewritten", path);
        EXPECT_EQ(as_task({path}), exits("one\n"));
        write_guest("rewritten-other", path);
        EXPECT_EQ(as_task({path}), exits("the other\n"));
    }
    std::filesystem::remove(path);
}

TEST_F(files, whose_first_segment_is_code_are_searched)
{
    Outcome joined = as_task({program("patch_sites-joined"), "many"});
    EXPECT_EQ(joined, as_task({program("patch_sites"), "many"}));
    EXPECT_EQ(joined.output.find("close 0"), std::string::npos) << joined.output;
}

// The file has the size and time of the one that all tasks share, and lies in a mount namespace of
// the task's own.
TEST_F(files, bound_over_the_linkers_cache_are_read_instead_of_it)
{
    struct stat cache;
    if (stat(Cache, &cache) != 0 || cache.st_size < 1000)
        GTEST_SKIP() << "needs " << Cache << " (ldconfig)";
    std::string path = testing::TempDir() + "onespace-cache." + std::to_string(getpid());
    std::string name = "libonespace-of-the-other-cache.so";
    std::ofstream(path, std::ios::binary)
        << cache_of(name, program("aligned-separate.so"), static_cast<size_t>(cache.st_size));
    const timespec times[2] = {cache.st_atim, cache.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    if (!can_bind(path)) {
        std::filesystem::remove(path);
        GTEST_SKIP() << "needs to mount in a namespace of its own";
    }
    auto bound = [&](Attr &attr) {
        attr.before = bind_over_cache;
        attr.before_argument = path.data();
    };
    Words words = {program("finds"), name};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(as_task(words), exits("not found\n"));
        EXPECT_TRUE(is_mapped(Cache));
        EXPECT_EQ(as_task(words, bound), exits("opened\n"));
    }
    std::filesystem::remove(path);
}
