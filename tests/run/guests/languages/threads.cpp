// Exceptions through threads and libraries, thread-local objects, OpenMP, locale and streams.
#include <atomic>
#include <future>
#include <iostream>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static thread_local std::string name = "none";
static std::atomic<int> ended{0};

struct Guard {
    ~Guard()
    {
        ended++;
    }
};
static thread_local Guard guard;

static int throwing(int depth)
{
    Guard on_stack;
    if (depth == 0)
        throw std::runtime_error("thrown");
    return throwing(depth - 1) + 1;
}

int main(int argc, char **)
{
    std::vector<std::thread> threads;
    std::atomic<int> caught{0};
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            (void)&guard;
            name = "thread " + std::to_string(t);
            for (int i = 0; i < 100; i++)
                try {
                    throwing(10);
                } catch (const std::exception &e) {
                    caught += std::string(e.what()) == "thrown";
                }
        });
    for (auto &thread : threads)
        thread.join();
    auto future = std::async(std::launch::async, []() -> int { throw std::out_of_range("far"); });
    try {
        future.get();
    } catch (const std::out_of_range &) {
        caught++;
    }
    long sum = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int i = 0; i < 1000; i++)
        sum += i;
    bool matched = std::regex_match("task 12", std::regex("task [0-9]+"));
    std::cout << caught << ' ' << ended << ' ' << sum << ' ' << name << ' ' << matched << std::endl;
    return argc - 1;
}
