/* tests/arch/corpus.cpp: see corpus.hpp. */
#include "corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace
{

/* The first of the candidates below the package's directory that is there. Since Debian 13 all is
 * in /usr. */
CorpusFile find(const std::string &package, const std::string &name)
{
    fs::path root = fs::path(ONESPACE_TEST_LIBCS) / package;
    for (const char *directory : {"lib", "usr/lib"}) {
        fs::path path = root / directory / name;
        if (!fs::exists(path))
            continue;
        std::string version;
        std::getline(std::ifstream(root / "version"), version);
        return {package + "/" + path.filename().string(), path, version};
    }
    return {package + "/" + fs::path(name).filename().string(), ""};
}

} // namespace

std::vector<CorpusFile> corpus_libcs()
{
    std::vector<CorpusFile> files;
    for (const std::string release : {"bullseye", "bookworm", "trixie", "sid"}) {
        for (const char *name : {"ld-linux-x86-64.so.2", "libc.so.6", "libpthread.so.0"})
            files.push_back(find(release + "-libc6", std::string("x86_64-linux-gnu/") + name));
        files.push_back(find(release + "-musl", "x86_64-linux-musl/libc.so"));
    }
    files.push_back({"this machine/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"});
    files.push_back({"this machine/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"});
    return files;
}

std::vector<CorpusFile> corpus_other_programs()
{
    std::vector<CorpusFile> files;
    for (const char *name : {"nil-go", "plain-musl", "rust"}) {
        files.push_back({name, ""});
        for (const char *directory : {ONESPACE_TEST_PROGRAMS, ONESPACE_TEST_OTHER_PROGRAMS})
            if (fs::exists(fs::path(directory) / name))
                files.back().path = fs::path(directory) / name;
    }
    return files;
}

std::vector<CorpusFile> corpus_test_programs()
{
    std::vector<CorpusFile> files;
    for (const fs::directory_entry &entry : fs::directory_iterator(ONESPACE_TEST_PROGRAMS)) {
        bool is_program = entry.is_regular_file() && !entry.path().has_extension() &&
                          (entry.status().permissions() & fs::perms::owner_exec) != fs::perms::none;
        if (is_program)
            files.push_back({entry.path().filename(), entry.path()});
    }
    return files;
}

std::vector<std::string> corpus_files()
{
    std::vector<std::string> paths;
    for (const auto &files : {corpus_libcs(), corpus_other_programs(), corpus_test_programs()})
        for (const CorpusFile &file : files)
            if (!file.path.empty() && fs::exists(file.path))
                paths.push_back(file.path);
    return paths;
}
