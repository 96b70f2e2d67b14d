// tests/storage/faults/faults.hpp: system calls of src/storage that fail when a test says so. The
// linker makes these functions wrap the system's (faults.cmake).
#ifndef TESTS_STORAGE_FAULTS_HPP
#define TESTS_STORAGE_FAULTS_HPP

#include <functional>
#include <string>

enum class Call {
    open,
    openat,
    fallocate,
    ftruncate,
    fsync,
    fdatasync,
    msync,
    pwrite,
    pread,
    clone,
    mmap,
    mkdir,
    unlink,
    lock,
    io_setup,
    io_submit,
    io_getevents,
    count
};
const char *name_of(Call call);

struct Fault {
    Call call;
    unsigned number = 0;  // of the call of its kind that fails, from 1 on
    int error = 0;        // 0: only half is done (pwrite, pread; also where they are asynchronous)
    bool stays = false;   // all later ones of the kind fail too
    bool has_hit = false; // result
    bool is_passing() const; // the code under test may ignore it
    std::string say() const;
};

// Features of the file system, whatever the real one has.
struct Device {
    bool has_fallocate = true;
    bool has_clones = false; // that copy
};

// Runs `scenario` on the wanted device once without a fault, then with each call of the kind
// failing in turn with each of `errors` (0: a short transfer), once and permanently. `check` gets
// each outcome.
void each_fault(Device wanted, Call call, std::initializer_list<int> errors,
                const std::function<void()> &scenario,
                const std::function<void(const Fault &)> &check);

#endif
