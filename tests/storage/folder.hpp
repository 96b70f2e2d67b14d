// tests/storage/folder.hpp: a folder that goes with the test.
#ifndef TESTS_STORAGE_FOLDER_HPP
#define TESTS_STORAGE_FOLDER_HPP

#include <cstdlib>
#include <filesystem>
#include <string>

class Folder
{
    std::string name =
        (std::filesystem::temp_directory_path() / "onespace-versions-XXXXXX").string();

  public:
    Folder()
    {
        if (!mkdtemp(name.data()))
            abort();
    }
    ~Folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(name, ignored);
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    std::string operator/(const std::string &file) const
    {
        return name + "/" + file;
    }
};

#endif
