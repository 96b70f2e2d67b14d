// tests/sharing/guests/sharing_data.cpp: containers and blocks of memory.
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <sys/single_threaded.h>

#include "onespace.h"
#include "sharing.hpp"

namespace
{

using Numbers = std::vector<int>;
using Words = std::map<std::string, int>;

void *make_vector()
{
    auto *numbers = new Numbers(1000);
    std::iota(numbers->begin(), numbers->end(), 1);
    return numbers;
}

std::string sum_vector(void *place)
{
    auto &numbers = *static_cast<Numbers *>(place);
    return std::to_string(std::accumulate(numbers.begin(), numbers.end(), 0L));
}

// Its memory is exchanged several times for larger ones, of the caller's malloc.
std::string grow_vector(void *place)
{
    auto &numbers = *static_cast<Numbers *>(place);
    for (int i = 0; i < 100000; i++)
        numbers.push_back(1);
    return std::to_string(numbers.size());
}

void *make_map()
{
    auto *words = new Words;
    for (int i = 0; i < 100; i++)
        (*words)["a key that is too long for the object itself, number " + std::to_string(i)] = i;
    return words;
}

std::string sum_map(void *place)
{
    auto &words = *static_cast<Words *>(place);
    int sum = 0;
    for (auto &[word, number] : words)
        sum += word.size() > 45 ? number : -1000;
    auto found = words.find("a key that is too long for the object itself, number 57");
    return std::to_string(sum) + " " + std::to_string(found->second);
}

std::string change_map(void *place)
{
    auto &words = *static_cast<Words *>(place);
    for (int i = 0; i < 100; i += 2)
        words.erase("a key that is too long for the object itself, number " + std::to_string(i));
    words["another key that is too long for the object itself"] = 57;
    return std::to_string(words.size());
}

std::string remove_map(void *place)
{
    delete static_cast<Words *>(place);
    return "deleted";
}

struct Node {
    Node *left, *right;
    int value;
};

Node *make_subtree(int low, int high)
{
    if (low >= high)
        return nullptr;
    int middle = (low + high) / 2;
    return new Node{make_subtree(low, middle), make_subtree(middle + 1, high), middle};
}

void *make_tree()
{
    return make_subtree(0, 1000);
}

long sum_subtree(const Node *node)
{
    return node ? sum_subtree(node->left) + sum_subtree(node->right) + node->value : 0;
}

std::string sum_tree(void *place)
{
    return std::to_string(sum_subtree(static_cast<Node *>(place)));
}

void *make_shared()
{
    return new std::shared_ptr<int>(std::make_shared<int>(42));
}

std::string copy_shared(void *place)
{
    static std::shared_ptr<int> copy;
    copy = *static_cast<std::shared_ptr<int> *>(place);
    return std::to_string(copy.use_count());
}

std::string count_shared(void *place)
{
    return std::to_string(static_cast<std::shared_ptr<int> *>(place)->use_count());
}

// What libstdc++ asks before it counts without atomic instructions.
std::string is_single_threaded(void *)
{
    return __libc_single_threaded ? "single" : "several";
}

std::string join_space(void *)
{
    return onespace_init() > 0 ? "joined" : "failed";
}

// ---- Blocks ----

constexpr size_t Size = 100;

void *make_block()
{
    void *block = malloc(Size);
    memset(block, 0x5a, Size);
    return block;
}

std::string free_block(void *block)
{
    free(block);
    std::vector<void *> others;
    bool same = false;
    for (int i = 0; i < 20; i++) {
        others.push_back(malloc(Size));
        same |= others.back() == block;
    }
    for (void *other : others)
        free(other);
    return same ? "same block" : "other blocks";
}

// A call that the compiler does not leave out: it takes back what others have freed.
void take_back()
{
    void *volatile nothing = nullptr;
    free(nothing);
}

// By the owner, after another task freed it.
std::string find_block(void *block)
{
    take_back();
    bool found = false;
    for (int i = 0; i < 20; i++)
        found |= malloc(Size) == block;
    return found ? "came back" : "is lost";
}

std::string resize_block(void *block)
{
    return realloc(block, 10 * Size) ? "resized" : "not resized";
}

std::string is_intact(void *block)
{
    for (size_t i = 0; i < Size; i++)
        if (static_cast<unsigned char *>(block)[i] != 0x5a)
            return "changed";
    return "intact";
}

// A child has a copy of all memory, and frees its own copy.
std::string free_in_child(void *block)
{
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        free(block);
        take_back();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status == 0 ? "freed" : "failed";
}

// ---- A queue whose blocks one task allocates and the other frees, from several threads each ----

constexpr int Threads = 3, Blocks = 20000;

struct Queue {
    std::mutex mutex;
    std::deque<unsigned char *> blocks;
    int wrong = 0;
};

void *make_queue()
{
    return new Queue;
}

template <typename Work> void in_threads(Work work)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < Threads; i++)
        threads.emplace_back(work, i);
    for (auto &thread : threads)
        thread.join();
}

size_t size_of(int number)
{
    return 16 + static_cast<size_t>(number) * 37 % 5000;
}

std::string produce(void *place)
{
    auto &queue = *static_cast<Queue *>(place);
    in_threads([&](int) {
        for (int i = 0; i < Blocks; i++) {
            auto *block = static_cast<unsigned char *>(malloc(size_of(i) + 4));
            memcpy(block, &i, 4);
            memset(block + 4, i & 255, size_of(i));
            std::lock_guard guard(queue.mutex);
            queue.blocks.push_back(block);
        }
    });
    return "produced";
}

std::string consume(void *place)
{
    auto &queue = *static_cast<Queue *>(place);
    in_threads([&](int) {
        for (int i = 0; i < Blocks;) {
            unsigned char *block = nullptr;
            {
                std::lock_guard guard(queue.mutex);
                if (!queue.blocks.empty()) {
                    block = queue.blocks.front();
                    queue.blocks.pop_front();
                }
            }
            if (!block) {
                std::this_thread::yield();
                continue;
            }
            int number;
            memcpy(&number, block, 4);
            bool good = true;
            for (size_t at = 4; at < size_of(number) + 4; at++)
                good &= block[at] == (number & 255);
            free(block);
            i++;
            if (!good) {
                std::lock_guard guard(queue.mutex);
                queue.wrong++;
            }
        }
    });
    return std::to_string(queue.wrong) + " wrong";
}

// Megabytes that malloc has given out and not got back.
std::string in_use(void *)
{
    take_back();
    return std::to_string(mallinfo2().uordblks >> 20);
}

} // namespace

const Thing data_things[] = {
    {"vector", make_vector, sum_vector},
    {"vector-growth", nullptr, grow_vector},
    {"map", make_map, sum_map},
    {"map-change", nullptr, change_map},
    {"map-removal", nullptr, remove_map},
    {"tree", make_tree, sum_tree},
    {"shared", make_shared, copy_shared},
    {"shared-count", nullptr, count_shared},
    {"threads", nullptr, is_single_threaded},
    {"joining", nullptr, join_space},
    {"block", make_block, free_block},
    {"block-again", nullptr, find_block},
    {"block-resize", nullptr, resize_block},
    {"block-intact", nullptr, is_intact},
    {"block-in-child", nullptr, free_in_child},
    {"queue", make_queue, consume},
    {"queue-filling", nullptr, produce},
    {"in-use", nullptr, in_use},
    {nullptr, nullptr, nullptr},
};
