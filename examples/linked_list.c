/* examples/linked_list.c: one task builds a linked list, another walks it in place.
 *
 *   cc linked_list.c -o linked_list $(pkg-config --cflags --libs onespace)
 *   ./linked_list
 *
 * The program starts itself twice. Nothing is packed or copied: the links are plain pointers into
 * the builder's heap. The builder may end once the walker holds its memory. */
#include <onespace.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

static int build(void)
{
    struct node *list = NULL;
    for (int value = 1; value <= 1000; value++) {
        struct node *node = malloc(sizeof(*node));
        *node = (struct node){value, list};
        list = node;
    }
    if (onespace_export("list", list, sizeof(*list)) < 0)
        return 1;
    return onespace_barrier(10000) < 0; /* passed by the walker when it has imported the list */
}

static int walk(int builder)
{
    void *list;
    long sum = 0;
    if (onespace_import(builder, "list", &list, NULL, 10000) < 0 || onespace_barrier(10000) < 0)
        return 1;
    for (const struct node *node = list; node; node = node->next)
        sum += node->value;
    printf("the sum of the other task's list is %ld\n", sum);
    return onespace_release(builder) < 0 || sum != 500500;
}

int main(int argc, char **argv)
{
    int self = onespace_init();
    if (self > 0)
        return argc > 1 ? walk(atoi(argv[1])) : build();
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    struct onespace_status built = {.status = 1}, walked = {.status = 1};
    char text[16], *builder_argv[] = {argv[0], NULL}, *walker_argv[] = {argv[0], text, NULL};
    attr.ntasks = 2; /* the barrier is for numbers 0 and 1 */
    attr.number = 0;
    int builder = onespace_spawn(argv[0], builder_argv, NULL, &attr);
    attr.number = 1;
    snprintf(text, sizeof(text), "%d", builder);
    int walker = onespace_spawn(argv[0], walker_argv, NULL, &attr);
    if (builder < 0 || walker < 0 || onespace_wait(builder, &built, -1) < 0 ||
        onespace_wait(walker, &walked, -1) < 0)
        return 1;
    return built.status != 0 || walked.status != 0;
}
