// tests/sharing/guests/sharing_locks.cpp: locks and waiting across tasks.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "sharing.hpp"

namespace
{

constexpr int Rounds = 100000, Turns = 2000;

struct Plain {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    long count = 0;
};

void *make_plain()
{
    return new Plain;
}

std::string count_plain(void *place)
{
    auto &plain = *static_cast<Plain *>(place);
    for (int i = 0; i < Rounds; i++) {
        pthread_mutex_lock(&plain.mutex);
        plain.count = plain.count + 1;
        pthread_mutex_unlock(&plain.mutex);
    }
    return "done";
}

std::string show_plain(void *place)
{
    return std::to_string(static_cast<Plain *>(place)->count);
}

// Two tasks take turns, so that each waits for the other at every step.
struct Turn {
    std::mutex mutex;
    std::condition_variable changed;
    int turns = 0;
};

void *make_turn()
{
    return new Turn;
}

template <int Parity> std::string take_turns(void *place)
{
    auto &turn = *static_cast<Turn *>(place);
    for (int i = 0; i < Turns; i++) {
        std::unique_lock lock(turn.mutex);
        turn.changed.wait(lock, [&] { return turn.turns % 2 == Parity; });
        turn.turns++;
        turn.changed.notify_all();
    }
    return std::to_string(turn.turns >= 2 * Turns - 1);
}

void *make_robust()
{
    auto *mutex = new pthread_mutex_t;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    return mutex;
}

std::string lock_robust(void *place)
{
    int result = pthread_mutex_lock(static_cast<pthread_mutex_t *>(place));
    return result == 0 ? "locked" : result == EOWNERDEAD ? "owner died" : "failed";
}

// ---- std::atomic::wait ----

void *make_word()
{
    return new std::atomic<int>(0);
}

bool is_asleep(int thread)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    FILE *stat = fopen(path, "re");
    if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (stat)
        fclose(stat);
    return state == 'S';
}

std::string wait_for_word(void *place)
{
    static std::atomic<int> thread, woken;
    auto &word = *static_cast<std::atomic<int> *>(place);
    std::thread([&] {
        thread = static_cast<int>(syscall(SYS_gettid));
        word.wait(0);
        woken = 1;
        woken.notify_all();
        printf("woken\n");
        fflush(stdout);
    }).detach();
    while (!thread || !is_asleep(thread))
        std::this_thread::yield();
    return "asleep";
}

long wake(void *place, int how)
{
    return syscall(SYS_futex, place, FUTEX_WAKE | how, INT32_MAX, nullptr, nullptr, 0);
}

// The kernel wakes and counts the threads that the notification left asleep. Which kind of futex
// they sleep on depends on how libstdc++ was built.
std::string notify_word(void *place)
{
    auto &word = *static_cast<std::atomic<int> *>(place);
    word = 1;
    word.notify_all();
    return std::to_string(wake(place, 0) + wake(place, FUTEX_PRIVATE_FLAG));
}

} // namespace

const Thing lock_things[] = {
    {"mutex", make_plain, count_plain},          {"mutex-count", nullptr, show_plain},
    {"turn", make_turn, take_turns<0>},          {"turn-other", nullptr, take_turns<1>},
    {"robust", make_robust, lock_robust},        {"word", make_word, wait_for_word},
    {"word-notification", nullptr, notify_word}, {nullptr, nullptr, nullptr},
};
