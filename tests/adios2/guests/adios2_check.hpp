// tests/adios2/guests/adios2_check.hpp: what the guests that use ADIOS2 share.
#ifndef TESTS_ADIOS2_CHECK_HPP
#define TESTS_ADIOS2_CHECK_HPP

#include <adios2.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

// Ends the program unless `condition` holds.
#define REQUIRE(condition) require(condition, #condition, "line", __LINE__)

inline void require(bool holds, const char *what, const char *place, size_t number)
{
    if (holds)
        return;
    printf("%s %zu: %s\n", place, number, what);
    exit(1);
}

inline void print_line(const std::string &line)
{
    printf("%s\n", line.c_str());
    fflush(stdout);
}

inline void print_end(size_t steps, adios2::StepStatus status)
{
    bool has_ended = status == adios2::StepStatus::EndOfStream;
    print_line(std::to_string(steps) + " steps, then " + (has_ended ? "the end" : "an error"));
}

inline void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

// The exit status of a program: 3 if ADIOS2 throws an exception, whose message is printed.
template <class Program> int run_program(Program &&program)
{
    try {
        program();
    } catch (const std::exception &failure) {
        printf("failed: %s\n", failure.what());
        return 3;
    }
    return 0;
}

#endif
