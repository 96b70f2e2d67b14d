/* src/host/room/mappings.c: see mappings.h. */
#include "host/room/mappings.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "space/layout.h"

uint64_t mappings_allowed(void)
{
    uint64_t most = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (!file)
        return UINT64_MAX;
    int read = fscanf(file, "%" SCNu64, &most);
    fclose(file);
    return read == 1 ? most : UINT64_MAX;
}

struct reading {
    uintptr_t start;  /* of the line's mapping, as far as it is read */
    int is_in_number; /* at the beginning of a line */
    uint32_t of_slot[LAYOUT_SLOTS];
};

static unsigned digit_of(char character)
{
    return character <= '9' ? (unsigned)(character - '0') : (unsigned)(character - 'a') + 10;
}

/* A line begins with its address in hexadecimal and '-'. */
static void read_character(struct reading *reading, struct mappings *mappings, char character)
{
    if (character == '\n') {
        reading->is_in_number = 1;
        reading->start = 0;
        mappings->used++;
    } else if (reading->is_in_number && character != '-') {
        reading->start = reading->start * 16 + digit_of(character);
    } else if (reading->is_in_number) {
        reading->is_in_number = 0;
        unsigned slot = layout_slot_of(reading->start);
        if (slot > 0 && slot < LAYOUT_SLOTS && ++reading->of_slot[slot] > mappings->largest)
            mappings->largest = reading->of_slot[slot];
    }
}

void mappings_count(struct mappings *mappings)
{
    char buffer[16384];
    struct reading reading;
    memset(&reading, 0, sizeof(reading));
    reading.is_in_number = 1;
    *mappings = (struct mappings){.most_there = mappings_allowed()};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t length; fd >= 0 && (length = read(fd, buffer, sizeof(buffer))) > 0;)
        for (ssize_t i = 0; i < length; i++)
            read_character(&reading, mappings, buffer[i]);
    if (fd >= 0)
        close(fd);
}

int mappings_are_gone(const struct mappings *mappings)
{
    enum { GIVEN_BACK = 256 };
    return mappings->used + GIVEN_BACK >= mappings->most_there;
}
