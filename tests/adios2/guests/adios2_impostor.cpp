// tests/adios2/guests/adios2_impostor.cpp: publishes the control of a writer with another ABI,
// until standard input ends.
#include "step.hpp"

#include <onespace/insitu.h>

#include <cstdio>
#include <cstring>

int main(int argc, char **argv)
{
    static onespace_adios::Control control;
    control.magic = onespace_adios::MAGIC;
    control.abi = onespace_adios::ABI + 1;
    strcpy(control.adios2_version, "9.9.9");
    onespace_insitu *channel;
    onespace_insitu_array array = {};
    array.name = onespace_adios::PART_NAME;
    array.address = &control;
    array.bytes = array.shape[0] = sizeof(control);
    array.type = ONESPACE_INSITU_UINT8;
    array.dimensions = 1;
    char name[64];
    snprintf(name, sizeof(name), "adios2+%s", argc > 1 ? argv[1] : "data");
    if (onespace_insitu_create(name, nullptr, &channel) < 0 ||
        onespace_insitu_begin(channel, 0, -1) < 0 || onespace_insitu_put(channel, &array) < 0 ||
        onespace_insitu_publish(channel) < 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
