/* examples/tree.c: one task builds a search tree, all follow its pointers to look keys up.
 *
 *   cc tree.c -o tree $(pkg-config --cflags --libs onespace)
 *   ./tree */
#include <onespace.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 10000, TASKS = 4 };
struct node {
    struct node *below, *above;
    int key;
};

static struct node *build(int low, int high) /* of the keys low to high - 1 */
{
    if (low >= high)
        return NULL;
    struct node *node = malloc(sizeof(*node));
    node->key = (low + high) / 2;
    node->below = build(low, node->key);
    node->above = build(node->key + 1, high);
    return node;
}

static int has(const struct node *node, int key)
{
    return node && (node->key == key || has(key < node->key ? node->below : node->above, key));
}

static int be_task(int builder)
{
    int count = 0;
    void *tree = builder ? NULL : build(0, COUNT);
    int result = builder ? onespace_import(builder, "tree", &tree, NULL, 10000)
                         : onespace_export("tree", tree, sizeof(struct node));
    if (result < 0 || onespace_barrier(10000) < 0) /* its memory is held, so the builder may end */
        return 1;
    for (int key = onespace_number(); key < COUNT; key += TASKS)
        count += has(tree, key);
    return printf("task number %d found %d keys\n", onespace_number(), count) < 0;
}

int main(int argc, char **argv)
{
    if (onespace_init() > 0)
        return be_task(argc > 1 ? atoi(argv[1]) : 0);
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    struct onespace_status status;
    char text[16], *words[] = {argv[0], NULL, NULL};
    int failures = 0;
    for (attr.ntasks = TASKS, attr.number = 0; attr.number < TASKS; attr.number++) {
        int id = onespace_spawn(argv[0], words, NULL, &attr);
        if (!words[1]) /* the others get the builder's id */
            snprintf(words[1] = text, sizeof(text), "%d", id);
    }
    while (onespace_wait(ONESPACE_ANY, &status, -1) > 0)
        failures += status.status != 0;
    return failures;
}
