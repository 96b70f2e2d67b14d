/* tests/programs/extra.c: a library that a task opens while it runs. */
__attribute__((visibility("default"))) int extra_number = 1234;
__attribute__((visibility("default"))) int extra_function(int value);

int extra_function(int value)
{
    return value + extra_number;
}
