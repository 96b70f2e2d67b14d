// tests/sync/lost.hpp: a rank reports which rank it has lost.
#ifndef ONESPACE_TESTS_SYNC_LOST_HPP
#define ONESPACE_TESTS_SYNC_LOST_HPP

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

// Prints it, waits until the other survivors have printed theirs, and ends the rank: one that ended
// before would be a lost rank to a slower one. They meet in a file of the test's runtime directory.
// MPI_Finalize would wait for the lost rank.
[[noreturn]] inline void report_loss(int rank, int lost, int survivors)
{
    struct stat status;
    const char *directory = getenv("XDG_RUNTIME_DIR");
    std::string file = std::string(directory ? directory : "/tmp") + "/survivors";
    printf("rank %d lost %d\n", rank, lost);
    fflush(stdout);
    int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1)
        _exit(2);
    while (fstat(fd, &status) == 0 && status.st_size < survivors)
        usleep(1000);
    unlink(file.c_str());
    _exit(0);
}

#endif
