// tests/storage/versions/crew_main.cpp: run_job as a program, for tests that make the disk lose
// power.
//
//   versions-crew FILE [NAME=NUMBER|NAME=TEXT]...
//
// Prints the outcome as one JSON object. Status 0 whatever the outcome is, 2 wrong usage.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "crew.hpp"

static bool set(Job &job, const std::string &name, const std::string &value)
{
    unsigned number = unsigned(strtoul(value.c_str(), nullptr, 10));
    if (name == "ranks")
        job.ranks = number;
    else if (name == "pages")
        job.pages = number;
    else if (name == "commits")
        job.commits = number;
    else if (name == "keep")
        job.keep = number;
    else if (name == "separate")
        job.is_separate = number;
    else if (name == "seed")
        job.seed = number;
    else if (name == "retries")
        job.retries = number;
    else if (name == "control")
        job.control = value;
    else if (name == "without")
        job.without = value == "flush"       ? Without::flush
                      : value == "agreement" ? Without::agreement
                      : value == "nonce"     ? Without::nonce
                                             : Without::nothing;
    else
        return false;
    return true;
}

static std::string quoted(const std::string &text)
{
    std::string result = "\"";
    for (char c : text)
        result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return result + "\"";
}

int main(int argc, char **argv)
{
    Job job;
    if (argc < 2)
        return 2;
    job.path = argv[1];
    for (int i = 2; i < argc; i++) {
        const char *sign = strchr(argv[i], '=');
        if (!sign || !set(job, std::string(argv[i], size_t(sign - argv[i])), sign + 1)) {
            fprintf(stderr, "versions-crew: %s?\n", argv[i]);
            return 2;
        }
    }
    Outcome outcome = run_job(job);
    printf(
        "{\"killed\": %d, \"hung\": %d, \"error\": %d, \"errors_differ\": %d, \"restored\": %lu, "
        "\"committed\": %lu, \"torn\": %s, \"text\": %s}\n",
        outcome.is_killed, outcome.has_hung, outcome.error, outcome.errors_differ, outcome.restored,
        outcome.committed, quoted(outcome.torn).c_str(), quoted(outcome.text).c_str());
    return 0;
}
