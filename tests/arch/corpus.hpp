/* tests/arch/corpus.hpp: the files that the patcher is tried on. */
#ifndef TESTS_ARCH_CORPUS_HPP
#define TESTS_ARCH_CORPUS_HPP

#include <string>
#include <vector>

#include "elf_code.hpp"

struct CorpusFile {
    std::string name, path;   /* path empty: not here */
    std::string version = {}; /* of its package, if fetched */
};

/* C libraries and dynamic linkers of Debian's releases, from .libcs, and this machine's. */
std::vector<CorpusFile> corpus_libcs();
/* Programs of other tools than the build's own. */
std::vector<CorpusFile> corpus_other_programs();
/* What the tests run, as far as it is built. */
std::vector<CorpusFile> corpus_test_programs();
/* All of them that are here. */
std::vector<std::string> corpus_files();

#endif
