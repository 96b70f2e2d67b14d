// tests/storage/file/directory_entry_test.cpp: what other users may have put where a window's files
// are.
#include <climits>
#include <cstring>
#include <fstream>

#include "region.hpp"

namespace
{

constexpr uid_t Other = 65534;

class entry : public Region
{
  protected:
    void SetUp() override
    {
        Region::SetUp();
        std::ofstream(path("victim")) << "private";
    }
    // A directory to which all users may write, as /tmp.
    void open_to_all(mode_t mode = 01777)
    {
        ASSERT_EQ(chmod(directory.c_str(), mode), 0);
    }
    int open_window(const std::string &file)
    {
        storage_file made;
        storage_hints hints = hints_for(file);
        error.text[0] = 0;
        int result = storage_file_open(&made, &hints, &error);
        storage_file_close(&made);
        return result;
    }
    bool says(const char *what) const
    {
        return strstr(error.text, what) != nullptr;
    }
    // The entry's owner, not that of the file that a link leads to. False: needs root.
    static bool give_to_other(const std::string &file)
    {
        return lchown(file.c_str(), Other, Other) == 0;
    }
};

#define NEED_ROOT(done)                                                                            \
    if (!(done))                                                                                   \
    GTEST_SKIP() << "needs root: gives files to another user"

TEST_F(entry, that_is_a_link_of_the_caller_is_followed)
{
    ASSERT_EQ(mkdir(path("there").c_str(), 0700), 0);
    ASSERT_EQ(symlink("there/data", path("link").c_str()), 0);
    ASSERT_EQ(symlink((directory + "/link").c_str(), path("outer").c_str()), 0);
    ASSERT_EQ(open_window(path("outer")), 0) << error.text;
    EXPECT_EQ(size_of(path("there/data")), 0) << "created where the links lead";
}

TEST_F(entry, that_leads_to_itself_is_an_error)
{
    ASSERT_EQ(symlink("loop", path("loop").c_str()), 0);
    EXPECT_EQ(open_window(path("loop")), -ELOOP) << error.text;
}

TEST_F(entry, that_is_a_link_of_another_user_is_refused)
{
    for (mode_t mode : {01777, 0777, 0700}) {
        unlink(path("data").c_str());
        ASSERT_EQ(symlink("victim", path("data").c_str()), 0);
        NEED_ROOT(give_to_other(path("data")));
        open_to_all(mode);
        EXPECT_EQ(open_window(path("data")), -EPERM) << error.text;
        EXPECT_TRUE(says("symbolic link of another user")) << error.text;
        EXPECT_TRUE(says((directory + "/data").c_str())) << error.text;
    }
}

TEST_F(entry, behind_a_link_of_another_user_is_refused_where_all_may_write)
{
    ASSERT_EQ(mkdir(path("there").c_str(), 0700), 0);
    ASSERT_EQ(symlink("there", path("way").c_str()), 0);
    open_to_all(01777);
    EXPECT_EQ(open_window(path("way/data")), 0) << "the caller's own: " << error.text;
    NEED_ROOT(give_to_other(path("way")));
    for (mode_t mode : {01777, 0777, 01770}) {
        open_to_all(mode);
        EXPECT_EQ(open_window(path("way/data")), -EPERM) << error.text;
        EXPECT_TRUE(says("symbolic link of another user")) << error.text;
        EXPECT_EQ(open_window(path("there/../way/../there/data")), -EPERM) << error.text;
    }
    open_to_all(0770); // a group's
    EXPECT_EQ(open_window(path("way/data")), 0) << error.text;
    EXPECT_EQ(size_of(path("there/data")), 0);
}

TEST_F(entry, of_another_user_is_refused_where_all_may_write)
{
    std::ofstream(path("data")).flush();
    NEED_ROOT(give_to_other(path("data")));
    EXPECT_EQ(open_window(path("data")), 0) << error.text; // no other user can have put it there
    for (mode_t mode : {01777, 0777, 01770}) {
        open_to_all(mode);
        EXPECT_EQ(open_window(path("data")), -EPERM) << error.text;
        EXPECT_TRUE(says("other users may write to its directory")) << error.text;
    }
    open_to_all(0770); // the files of a group
    EXPECT_EQ(open_window(path("data")), 0) << error.text;
}

TEST_F(entry, with_a_second_name_is_refused_where_all_may_write)
{
    ASSERT_EQ(link(path("victim").c_str(), path("data").c_str()), 0);
    EXPECT_EQ(open_window(path("data")), 0) << error.text;
    open_to_all();
    EXPECT_EQ(open_window(path("data")), -EPERM) << error.text;
    EXPECT_TRUE(says("has another name")) << error.text;
}

TEST_F(entry, that_is_a_fifo_is_refused_at_once)
{
    ASSERT_EQ(mkfifo(path("data").c_str(), 0600), 0);
    EXPECT_EQ(open_window(path("data")), -EINVAL);
    EXPECT_TRUE(says("neither a regular file nor a block device")) << error.text;
    const char *refusal;
    int at = open(directory.c_str(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(storage_entry_open(at, "data", O_RDONLY, 0, &refusal), -EINVAL);
    close(at);
}

TEST_F(entry, of_no_name_is_an_error)
{
    EXPECT_EQ(open_window(directory + "/"), -EISDIR);
    EXPECT_EQ(open_window(path("none/")), -EISDIR);
    EXPECT_EQ(open_window(path("none/file")), -ENOENT);
    EXPECT_EQ(open_window(std::string(PATH_MAX, 'x') + "/x"), -ENAMETOOLONG);
}

// Relative names are those of the directory in which the window was opened.
TEST_F(entry, is_removed_whatever_the_current_directory_is)
{
    char before[PATH_MAX];
    storage_file made;
    storage_hints hints = hints_for("scratch");
    ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
    ASSERT_EQ(chdir(directory.c_str()), 0);
    ASSERT_EQ(storage_file_open(&made, &hints, &error), 0) << error.text;
    ASSERT_EQ(chdir(before), 0);
    EXPECT_EQ(size_of(path("scratch")), 0);
    EXPECT_EQ(storage_file_unlink(&made, &error), 0) << error.text;
    EXPECT_EQ(size_of(path("scratch")), -1);
    storage_file_close(&made);
}

} // namespace
