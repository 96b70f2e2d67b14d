/* tests/arch/corpus.hpp: the files that the patcher is tried on. */
#ifndef TESTS_ARCH_CORPUS_HPP
#define TESTS_ARCH_CORPUS_HPP

#include <string>
#include <vector>

#include "elf_code.hpp"

struct CorpusFile {
    std::string name, path; /* path empty: not here */
};

/* C libraries and dynamic linkers of Debian's releases, from .libcs, and this machine's. */
std::vector<CorpusFile> corpus_libcs();
/* What the tests run, and programs of Go and Rust. */
std::vector<CorpusFile> corpus_programs();
/* Those of both that are here. */
std::vector<std::string> corpus_libraries();

#endif
