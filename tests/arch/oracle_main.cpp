/* tests/arch/oracle_main.cpp: patch-oracle [--markdown] [FILE...]
 * For the files, or for the C libraries that scripts/fetch-libcs got and programs of other
 * languages: prints which patch sites each file has, which system calls of interest are missed, and
 * why. Exits with 1 when a patch site must not be patched. */
#include "corpus.hpp"
#include "oracle.hpp"

#include <cstdio>
#include <cstring>
#include <map>

namespace
{

std::string name_of(long nr)
{
    return nr < 0 ? "?" : search_name(nr);
}

/* "mmap 3, munmap 2": of the patch sites. */
std::string count_names(const OracleReport &report)
{
    std::map<std::string, unsigned> counts;
    for (const OracleSite &site : report.sites)
        counts[name_of(site.nr)]++;
    std::string text;
    for (const auto &[name, count] : counts)
        text += (text.empty() ? "" : ", ") + name + " " + std::to_string(count);
    return text.empty() ? "none" : text;
}

/* Misses of a known number one by one, the others by their reason. */
std::map<std::string, unsigned> group_misses(const OracleReport &report)
{
    std::map<std::string, unsigned> groups;
    for (const OracleMiss &miss : report.misses) {
        bool is_known = miss.nr >= 0, in_register = miss.why.starts_with("number in ");
        groups[is_known      ? name_of(miss.nr) + " in `" + miss.where + "`: " + miss.why
               : in_register ? "number in a register"
                             : miss.why]++;
    }
    return groups;
}

void print_text(const CorpusFile &file, const OracleReport &report)
{
    std::printf("%s: %u functions, %u instructions, %u entries of jump tables, %u bytes not "
                "decoded, searched in %.0f us\n",
                file.name.c_str(), report.functions, report.instructions, report.table_entries,
                report.undecoded, report.search_us);
    for (const OracleSite &site : report.sites)
        std::printf("  found  %-18s %6lx %2u bytes  %s%s%s%s\n", name_of(site.nr).c_str(),
                    (unsigned long)site.address, site.length, site.where.c_str(),
                    site.beside_table ? " (indirect jumps)" : "",
                    site.fault.empty() ? "" : "  FAULT: ", site.fault.c_str());
    for (const OracleMiss &miss : report.misses)
        std::printf("  missed %-18s %6lx           %s: %s\n", name_of(miss.nr).c_str(),
                    (unsigned long)miss.address, miss.where.c_str(), miss.why.c_str());
}

void print_markdown(const CorpusFile &file, const OracleReport &report)
{
    std::string missed;
    for (const auto &[why, count] : group_misses(report))
        missed +=
            (missed.empty() ? "" : "; ") + (count > 1 ? std::to_string(count) + "× " : "") + why;
    std::printf("| `%s`%s | %s | %s |\n", file.name.c_str(),
                (file.version.empty() ? "" : "<br>" + file.version).c_str(),
                count_names(report).c_str(), missed.empty() ? "none" : missed.c_str());
}

std::vector<CorpusFile> corpus()
{
    std::vector<CorpusFile> files = corpus_libcs();
    for (const CorpusFile &file : corpus_other_programs())
        files.push_back(file);
    return files;
}

} // namespace

int main(int argc, char **argv)
{
    unsigned faults = 0;
    bool markdown = argc > 1 && std::strcmp(argv[1], "--markdown") == 0;
    std::vector<CorpusFile> files;
    for (int i = markdown ? 2 : 1; i < argc; i++)
        files.push_back({argv[i], argv[i]});
    if (markdown)
        std::puts("| file | found | missed, and why |\n|---|---|---|");
    for (const CorpusFile &file : files.empty() ? corpus() : files) {
        if (file.path.empty()) {
            std::fprintf(stderr, "patch-oracle: %s is not here\n", file.name.c_str());
            continue;
        }
        try {
            OracleReport report = consult_oracle(read_elf_code(file.path), kind_of_file(file.name));
            (markdown ? print_markdown : print_text)(file, report);
            faults += report.faults();
        } catch (const std::exception &error) {
            std::fprintf(stderr, "patch-oracle: %s: %s\n", file.path.c_str(), error.what());
            return 2;
        }
    }
    return faults != 0;
}
