/* tests/programs/scene.h: a guest program of several scenes; argv[1] names the one to play. */
#ifndef ONESPACE_TESTS_PROGRAMS_SCENE_H
#define ONESPACE_TESTS_PROGRAMS_SCENE_H

#include <stdio.h>
#include <string.h>

struct scene {
    const char *name;
    int (*play)(int argc, char **argv);
};

/* The linker's names for the first and the end of the section with all of them. */
extern const struct scene __start_scenes[], __stop_scenes[];

/* SCENE(name) { ... } defines play_name(argc, argv): argv[0] is the scene's name, with '-' for each
 * '_', and the result is the exit status. */
#define SCENE(id)                                                                                  \
    static int play_##id(int argc, char **argv);                                                   \
    __attribute__((section("scenes"), used)) static const struct scene scene_##id = {#id,          \
                                                                                     play_##id};   \
    static int play_##id(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)

static inline int is_scene(const struct scene *scene, const char *name)
{
    const char *id = scene->name;
    while (*id && *id == (*name == '-' ? '_' : *name))
        id++, name++;
    return !*id && !*name;
}

static inline int play_scene(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct scene *scene = __start_scenes; argc > 1 && scene < __stop_scenes; scene++)
        if (is_scene(scene, argv[1]))
            return scene->play(argc - 1, argv + 1);
    fprintf(stderr, "%s: no scene %s\n", argv[0], argc > 1 ? argv[1] : "given");
    return 120;
}

#endif
