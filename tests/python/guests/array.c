/* Reads and doubles the matrix of task argv[1], and exports its own matrix for that task. */
#include <onespace/array.h>

#include <stdlib.h>
#include <unistd.h>

static double cells[3][4];

static int double_matrix(int id)
{
    struct onespace_array *array;
    int result = onespace_array_view(id, "matrix", &array, 180000);
    if (result < 0)
        return result;
    printf("%u %llu %llu %c %c %s %lld\n", array->dimensions, (unsigned long long)array->shape[0],
           (unsigned long long)array->shape[1], array->kind, array->order, array->type,
           (long long)array->strides[0]);
    for (uint64_t i = 0; i < array->shape[0]; i++)
        for (uint64_t k = 0; k < array->shape[1]; k++)
            *(double *)(array->address + (int64_t)i * array->strides[0] +
                        (int64_t)k * array->strides[1]) *= 2;
    return onespace_array_release(id, array);
}

int main(int argc, char **argv)
{
    static const char type[] = "'<f8'";
    struct onespace_array *own = calloc(1, sizeof(*own) + sizeof(type));
    if (argc < 2 || own == NULL || onespace_init() < 0 || double_matrix(atoi(argv[1])) < 0)
        return 1;
    for (int i = 0; i < 12; i++)
        cells[i / 4][i % 4] = i;
    *own = (struct onespace_array){.address = (uintptr_t)cells,
                                   .low = (uintptr_t)cells,
                                   .bytes = sizeof(cells),
                                   .item_size = 8,
                                   .dimensions = 2,
                                   .kind = 'f',
                                   .order = '<',
                                   .shape = {3, 4},
                                   .strides = {32, 8}};
    memcpy(own->type, type, sizeof(type));
    if (onespace_array_export("cells", own) < 0 || onespace_array_export("cells", own) != -EEXIST)
        return 1;
    while (cells[2][3] != 77)
        usleep(1000);
    if (onespace_array_unexport("cells", own) < 0)
        return 1;
    while (onespace_array_users(own, NULL, 0) > 0)
        usleep(1000);
    printf("unused\n");
    own->shape[0] = 4; /* more than the memory holds */
    return onespace_array_export("lie", own) != -EPROTO;
}
