// tests/consumer/consumer.cpp: the header is C++, and the CMake package finds the library.
#include <onespace.h>

#include <iostream>
#include <sys/wait.h>

int main()
{
    onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char program[] = "sh", option[] = "-c", script[] = "exit 3";
    char *argv[] = {program, option, script, nullptr};
    onespace_status status{};
    if (onespace_init() != ONESPACE_ROOT)
        return 1;
    int id = onespace_spawn("sh", argv, nullptr, &attr);
    if (id < 0 || onespace_wait(id, &status, 10000) != id)
        return 1;
    std::cout << "C++ consumer: exit status " << WEXITSTATUS(status.status) << "\n";
    return WEXITSTATUS(status.status) == 3 && onespace_fini() == 0 ? 0 : 1;
}
