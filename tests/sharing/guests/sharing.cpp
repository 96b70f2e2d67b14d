// tests/sharing/guests/sharing.cpp: makes things in memory and does things to those of other tasks.
// Standard input says what: "make NAME" is answered with an address, "use NAME ADDRESS" with a
// word.
#include "sharing.hpp"

#include "onespace.h"

#include <cstdio>
#include <iostream>
#include <sstream>

static const Thing *find(const std::string &name)
{
    for (const Thing *things : {data_things, code_things, lock_things})
        for (const Thing *thing = things; thing->name; thing++)
            if (name == thing->name)
                return thing;
    return nullptr;
}

// With an argument the program does not say that it shares memory.
int main(int argc, char **)
{
    if (argc == 1 && onespace_init() < 0)
        return 121;
    for (std::string line, verb, name, address; std::getline(std::cin, line);) {
        std::istringstream words(line);
        words >> verb >> name >> address;
        const Thing *thing = find(name);
        if (!thing || (verb == "make" ? !thing->make : !thing->use))
            return 120;
        if (verb == "make")
            std::cout << thing->make() << std::endl;
        else
            std::cout << thing->use(reinterpret_cast<void *>(std::stoull(address, nullptr, 16)))
                      << std::endl;
    }
    return 0;
}
