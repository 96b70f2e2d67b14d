/* tests/interpose/guests/aligned.c: a library whose segments are aligned to 2 MiB, as linkers did
 * by default until 2018: constants, data, relocated data and zeroes. */
static int zeroes[2000];
static int data[2000] = {7, 8, 9};
static int *const relocated = &data[2];
static const int constants[2000] = {[1999] = 30};

/* Where its first page lies. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

const void *aligned_start(void);
const void *aligned_start(void)
{
    return __ehdr_start;
}

const void *aligned_data(void);
const void *aligned_data(void)
{
    return data;
}

/* 100, each time it is loaded. */
int aligned_sum(void);
int aligned_sum(void)
{
    zeroes[1999] += data[0]++ + data[1] + *relocated;
    return zeroes[1999] + constants[1999] + 46;
}
