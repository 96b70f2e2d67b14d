// tests/storage/versions/crew.hpp: a job whose ranks are processes that make versions, are killed,
// and check what is there afterwards.
//
// Every page of the window says which commit wrote it last. Which pages a version writes is a
// function of its number, so the right writer of every page of a restored version is known; and all
// pages of one version, on all ranks, must come from the same attempt to commit it. So a mixture is
// detected within a page, between pages, and between ranks.
#ifndef TESTS_STORAGE_CREW_HPP
#define TESTS_STORAGE_CREW_HPP

#include <cstdint>
#include <string>

enum class Without { nothing, flush, nonce, agreement };

struct Job {
    std::string path; // of the data file; with is_separate: PATH.RANK for each rank
    uint32_t ranks = 2;
    bool is_separate = false; // a file for each rank
    unsigned pages = 64;      // of the whole window; shared by the ranks as evenly as it goes
    unsigned keep = 1;
    unsigned commits = 3; // to be made after opening
    uint64_t seed = 1;
    Without without = Without::nothing;
    // Kills: a rank kills itself at its n-th write or flush, or the job is killed after that time.
    int dying_rank = -1;
    unsigned dies_at_step = 0;
    unsigned killed_after_us = 0;
    std::string control;  // of tests/power/blockdisk: gets a mark for each commit
    unsigned tail = 0;    // bytes by which the window ends before a page does
    bool retries = false; // a failed commit is retried once
    int full_rank = -1;   // for the marks of its commits there is no room
};

struct Outcome {
    bool is_killed = false; // as requested, or not
    bool has_hung = false;  // and was killed for that
    int error = 0;          // of versions_open or versions_commit, all ranks alike
    bool errors_differ = false;
    std::string text;           // of the first rank that had one
    std::string torn;           // what is wrong with the restored version; empty: nothing
    uint64_t restored = 0;      // version at opening
    uint64_t committed = 0;     // newest for which versions_commit returned on any rank
    uint64_t bytes_written = 0; // by all ranks, to slots
};

// Opens the newest version, checks every page of it, makes `commits` more.
Outcome run_job(const Job &asked);

#endif
