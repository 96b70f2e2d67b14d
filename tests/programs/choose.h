/* tests/programs/choose.h: a guest program is a list of small scenes; argv[1] names the one to
 * play. */
#ifndef ONESPACE_TESTS_PROGRAMS_CHOOSE_H
#define ONESPACE_TESTS_PROGRAMS_CHOOSE_H

#include <stdio.h>
#include <string.h>

struct scene {
    const char *name;
    int (*play)(int argc, char **argv); /* argv[0] is the scene's name; returns the exit status */
};

static inline int choose(const struct scene *scenes, size_t count, int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(scenes[i].name, argv[1]) == 0)
            return scenes[i].play(argc - 1, argv + 1);
    fprintf(stderr, "%s: no scene %s\n", argv[0], argc > 1 ? argv[1] : "given");
    return 120;
}

#define CHOOSE(scenes, argc, argv) choose(scenes, sizeof(scenes) / sizeof((scenes)[0]), argc, argv)

#endif
