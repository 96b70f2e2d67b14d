/* tests/interpose/guests/aligned_load.c: opens the library of its argument again and again, and
 * prints what it gives, by how many mappings it is there, and where it begins. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

enum { TIMES = 20 };

static const uintptr_t huge = 2 << 20;

/* From the library's first page to the end of the pages with its data. */
static int count_mappings(uintptr_t start, uintptr_t end)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096];
    uintptr_t low, high;
    int count = 0;
    while (maps && fgets(line, sizeof(line), maps))
        count += sscanf(line, "%lx-%lx", &low, &high) == 2 && low < end && high > start;
    if (maps)
        fclose(maps);
    return count;
}

int main(int argc, char **argv)
{
    uintptr_t start = 0;
    int most = 0;
    for (int i = 0; i < TIMES && argc == 2; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) {
            printf("%s\n", dlerror());
            return 1;
        }
        const void *(*find_start)(void) = (const void *(*)(void))dlsym(library, "aligned_start");
        const void *(*find_data)(void) = (const void *(*)(void))dlsym(library, "aligned_data");
        int (*sum)(void) = (int (*)(void))dlsym(library, "aligned_sum");
        start = (uintptr_t)find_start();
        int count = count_mappings(start, (uintptr_t)find_data() + 8);
        most = count > most ? count : most;
        if (start % huge || sum() != 100) {
            printf("at %lx, %d\n", start, sum());
            return 1;
        }
        dlclose(library);
    }
    printf("%d %lx\n", most, start);
    return 0;
}
