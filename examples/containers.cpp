/* examples/containers.cpp: one task fills a map and a vector, another reads and extends them.
 *
 *   c++ -std=c++17 containers.cpp -o containers $(pkg-config --cflags --libs onespace)
 *   ./containers
 *
 * A freed block returns to the task whose malloc allocated it: docs/sharing.md. */
#include <onespace.h>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

struct Books {
    std::map<std::string, int> years;
    std::vector<int> known;
};

static int fill()
{
    Books books{{{"Principia", 1687}, {"Faust", 1808}}, {1687, 1808}};
    if (onespace_export("books", &books, sizeof(books)) < 0 || onespace_barrier(10000) < 0)
        return 1;
    std::cout << "now " << books.years.size() << " books, one of " << books.known.back() << "\n";
    books = {};                         // frees everything, also blocks of the other task,
    return onespace_barrier(10000) < 0; // which must still be alive
}

static int extend(int filler)
{
    void *found;
    if (onespace_import(filler, "books", &found, nullptr, 10000) < 0)
        return 1;
    auto &books = *static_cast<Books *>(found);
    for (auto &[title, year] : books.years)
        std::cout << title << " is of " << year << std::endl;
    books.years["On the Origin of Species"] = 1859;
    books.known.push_back(1859);
    int failed = onespace_barrier(10000);
    return failed < 0 || onespace_barrier(10000) < 0;
}

int main(int argc, char **argv)
{
    if (onespace_init() > 0)
        return argc > 1 ? extend(atoi(argv[1])) : fill();
    onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    onespace_status status;
    int failures = 0;
    char text[16], *task_argv[] = {argv[0], nullptr, nullptr};
    attr.ntasks = 2;
    for (attr.number = 0; attr.number < 2; attr.number++) {
        int id = onespace_spawn(argv[0], task_argv, nullptr, &attr);
        snprintf(task_argv[1] = text, sizeof(text), "%d", id);
    }
    while (onespace_wait(ONESPACE_ANY, &status, -1) > 0)
        failures += status.status != 0;
    return failures != 0;
}
