// tests/interpose/files_test.cpp: the space knows the present content of a file, and all its code.
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
