// tests/storage/directory.hpp: a directory that is removed with the test.
#ifndef TESTS_STORAGE_DIRECTORY_HPP
#define TESTS_STORAGE_DIRECTORY_HPP

#include <cstdlib>
#include <filesystem>
#include <string>

class Directory
{
    std::string name =
        (std::filesystem::temp_directory_path() / "onespace-versions-XXXXXX").string();

  public:
    Directory()
    {
        if (!mkdtemp(name.data()))
            abort();
    }
    ~Directory()
    {
        std::error_code ignored;
        std::filesystem::remove_all(name, ignored);
    }
    Directory(const Directory &) = delete;
    Directory &operator=(const Directory &) = delete;
    std::string operator/(const std::string &file) const
    {
        return name + "/" + file;
    }
};

#endif
