/* mpi_collectives_nonblocking: nonblocking collective operations, many at a time.
 *
 *   mpi_collectives_nonblocking random ROUNDS SEED   random operations, completed in random ways
 *   mpi_collectives_nonblocking CASE...              the cases of these names */
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return value ^ (value >> 29);
}

static uint64_t state;
static unsigned below(unsigned limit)
{
    state = mix(state + 1);
    return (unsigned)(state >> 33) % limit;
}

/* Item `at` of what rank `from` sends to rank `to` (-1: to all) in operation `number`. */
static int item(unsigned number, int from, int to, int at)
{
    return (int)(mix(number * 1000003u + (unsigned)from * 8191u + (unsigned)(to + 1) * 131u +
                     (unsigned)at) >>
                 40);
}

/* The first reduction sets the communicator up for the layer. */
static void use_layer(MPI_Comm comm)
{
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
}

/* ---- Random operations ---- */

enum kind { BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, KINDS };

struct started {
    enum kind kind;
    unsigned number;
    int root, count, in_place, is_strided;
    int *sendbuf, *recvbuf;
};

static int receives(const struct started *op)
{
    int is_root = rank == op->root;
    return op->kind == BCAST || op->kind == SCATTER   ? !is_root || op->kind == SCATTER
           : op->kind == GATHER || op->kind == REDUCE ? is_root
                                                      : op->kind != BARRIER;
}

/* With is_strided received items lie two apart. */
static int *received(const struct started *op, int block, int at)
{
    return &op->recvbuf[(block * op->count + at) * (op->is_strided ? 2 : 1)];
}

static int is_reduction(const struct started *op)
{
    return op->kind == REDUCE || op->kind == ALLREDUCE;
}

static int has_blocks(const struct started *op)
{
    return op->kind == GATHER || op->kind == ALLGATHER || op->kind == ALLTOALL;
}

static void fill(struct started *op)
{
    int sends_each = op->kind == ALLTOALL || op->kind == SCATTER;
    int blocks = sends_each ? ranks : 1, mine = has_blocks(op) ? rank : 0;
    for (int block = 0; block < blocks; block++)
        for (int i = 0; i < op->count; i++) {
            int value = item(op->number, rank, sends_each ? block : -1, i);
            op->sendbuf[block * op->count + i] = value;
            if (op->in_place && op->kind != SCATTER)
                *received(op, op->kind == ALLTOALL ? block : mine, i) = value;
        }
}

static void begin(struct started *op, unsigned number, MPI_Comm comm, MPI_Request *request)
{
    int in_place_allowed, count;
    MPI_Datatype type = MPI_INT;
    *op = (struct started){.number = number, .kind = (enum kind)below(KINDS)};
    op->root = (int)below((unsigned)ranks);
    op->count = count = 1 + (int)(below(3) ? below(20) : below(3000));
    in_place_allowed = op->kind != BARRIER && op->kind != BCAST &&
                       (op->kind == ALLGATHER || op->kind == ALLTOALL || op->kind == ALLREDUCE ||
                        rank == op->root);
    int wants = (int)below(2), is_strided = (int)below(3) == 0;
    op->in_place = in_place_allowed && wants;
    op->is_strided = is_strided && !is_reduction(op) && op->kind != BCAST;
    op->sendbuf = malloc((size_t)(ranks * count) * sizeof(int));
    op->recvbuf = calloc((size_t)(ranks * count) * 2, sizeof(int));
    fill(op);
    const void *in = op->in_place ? MPI_IN_PLACE : op->sendbuf;
    if (op->is_strided) {
        MPI_Datatype vector;
        MPI_Type_vector(count, 1, 2, MPI_INT, &vector);
        MPI_Type_create_resized(vector, 0, count * 2 * (MPI_Aint)sizeof(int), &type);
        MPI_Type_free(&vector);
        MPI_Type_commit(&type);
        count = 1;
    }
    switch (op->kind) {
    case BARRIER:
        OK(MPI_Ibarrier(comm, request));
        break;
    case BCAST:
        OK(MPI_Ibcast(rank == op->root ? op->sendbuf : op->recvbuf, op->count, MPI_INT, op->root,
                      comm, request));
        break;
    case GATHER:
        OK(MPI_Igather(in, op->count, MPI_INT, op->recvbuf, count, type, op->root, comm, request));
        break;
    case SCATTER:
        OK(MPI_Iscatter(op->sendbuf, op->count, MPI_INT, op->in_place ? MPI_IN_PLACE : op->recvbuf,
                        count, type, op->root, comm, request));
        break;
    case ALLGATHER:
        OK(MPI_Iallgather(in, op->count, MPI_INT, op->recvbuf, count, type, comm, request));
        break;
    case ALLTOALL:
        OK(MPI_Ialltoall(in, op->count, MPI_INT, op->recvbuf, count, type, comm, request));
        break;
    case REDUCE:
        OK(MPI_Ireduce(in, op->recvbuf, op->count, MPI_INT, MPI_BXOR, op->root, comm, request));
        break;
    default:
        OK(MPI_Iallreduce(in, op->recvbuf, op->count, MPI_INT, MPI_BXOR, comm, request));
        break;
    }
    if (op->is_strided)
        MPI_Type_free(&type); /* the operation may still be incomplete */
}

static void end(struct started *op)
{
    int is_right = 1;
    for (int block = 0; receives(op) && block < (has_blocks(op) ? ranks : 1); block++)
        for (int i = 0; i < op->count; i++) {
            int expected = 0, source = has_blocks(op) ? block : op->root;
            int to = op->kind == ALLTOALL || op->kind == SCATTER ? rank : -1;
            for (int from = 0; is_reduction(op) && from < ranks; from++)
                expected ^= item(op->number, from, -1, i);
            if (!is_reduction(op))
                expected = item(op->number, source, to, i);
            if (op->kind == SCATTER && op->in_place)
                continue;
            is_right &= *received(op, block, i) == expected;
        }
    if (!is_right)
        printf("kind %d, operation %u, %d items%s%s\n", (int)op->kind, op->number, op->count,
               op->in_place ? ", in place" : "", op->is_strided ? ", strided" : "");
    CHECK(is_right);
    free(op->sendbuf);
    free(op->recvbuf);
    op->sendbuf = NULL;
}

/* Completes at least one of the requests. Returns how many; indices[] says which. */
static int complete_some(MPI_Request requests[], int count, int indices[])
{
    int completed = 0, index = MPI_UNDEFINED, flag = 0;
    switch (rand() % 7) {
    case 0:
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        for (completed = 0; completed < count; completed++)
            indices[completed] = completed;
        return completed;
    case 1:
        OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
        break;
    case 2:
        OK(MPI_Waitsome(count, requests, &completed, indices, MPI_STATUSES_IGNORE));
        return completed;
    case 3:
        while (!flag)
            OK(MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE));
        break;
    case 4:
        while (!completed)
            OK(MPI_Testsome(count, requests, &completed, indices, MPI_STATUSES_IGNORE));
        return completed;
    case 5:
        index = rand() % count;
        OK(MPI_Wait(&requests[index], MPI_STATUS_IGNORE));
        break;
    default:
        index = rand() % count;
        while (!flag)
            OK(MPI_Request_get_status(requests[index], &flag, MPI_STATUS_IGNORE));
        OK(MPI_Test(&requests[index], &flag, MPI_STATUS_IGNORE));
        CHECK(flag);
        break;
    }
    CHECK(index >= 0 && index < count);
    indices[0] = index;
    return 1;
}

/* Messages and operations end together. */
static void run_random(unsigned rounds, unsigned seed)
{
    enum { MAX = 40 };
    static struct started ops[MAX];
    MPI_Request requests[MAX];
    int count = 0, indices[MAX];
    state = seed;
    srand(seed * 100 + (unsigned)rank); /* each rank completes in an order of its own */
    use_layer(world);
    for (unsigned round = 0; round < rounds; round++) {
        int more = 1 + (int)below(below(8) ? 4 : MAX);
        for (int i = 0; i < more; i++) {
            while (count == MAX) {
                int done = complete_some(requests, count, indices), left = 0;
                for (int j = 0; j < done; j++)
                    end(&ops[indices[j]]);
                for (int j = 0; j < count; j++)
                    if (ops[j].sendbuf) {
                        ops[left] = ops[j];
                        requests[left++] = requests[j];
                    }
                count = left;
            }
            begin(&ops[count], round * 1000 + (unsigned)i, world, &requests[count]);
            count++;
        }
        if (below(16) == 0)
            use_layer(world);
        if (rand() % 50 == 0)
            usleep((unsigned)(rand() % 300));
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    while (count)
        end(&ops[--count]);
}

/* ---- Cases ---- */

/* An operation completes although another rank that has started it is in another call. */
CASE(completes_while_another_rank_receives)
{
    int one = 1, sum = 0, message = 0;
    MPI_Request request;
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request));
    if (rank == 0)
        for (int i = 1; i < ranks; i++)
            OK(MPI_Recv(&message, 1, MPI_INT, i, 7, world, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank != 0)
        OK(MPI_Send(&sum, 1, MPI_INT, 0, 7, world));
    CHECK(sum == ranks);
}

/* A root may be any number of operations ahead of ranks that have started none. */
CASE(root_is_far_ahead)
{
    enum { MANY = 3000 };
    static int values[MANY];
    static MPI_Request requests[MANY];
    int message = 0;
    if (rank != 0)
        OK(MPI_Recv(&message, 1, MPI_INT, 0, 8, world, MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) {
        values[i] = rank == 0 ? i * 3 : -1;
        OK(MPI_Ibcast(&values[i], 1, MPI_INT, 0, world, &requests[i]));
    }
    for (int i = 1; rank == 0 && i < ranks; i++)
        OK(MPI_Send(&message, 1, MPI_INT, i, 8, world));
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++)
        CHECK(values[i] == i * 3);
}

/* The root is not ahead by more than some. */
CASE(root_waits_for_each)
{
    for (int i = 0; i < 20000; i++) {
        int value = rank == 0 ? i : -1;
        MPI_Request request;
        if (rank && i % 5000 == 0)
            usleep(20000);
        OK(MPI_Ibcast(&value, 1, MPI_INT, 0, world, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(value == i);
    }
}

/* MPI_Comm_free allows operations that are incomplete. */
CASE(communicator_is_freed_meanwhile)
{
    for (int round = 0; round < 200; round++) {
        MPI_Comm comm;
        MPI_Request request[3];
        int value = rank == 0 ? round : -1, one = 1, sum = 0, *all = malloc(sizeof(int) * 5000);
        OK(MPI_Comm_dup(world, &comm));
        use_layer(comm);
        for (int i = 0; i < 5000; i++)
            all[i] = rank == 0 ? i + round : -1;
        OK(MPI_Ibcast(&value, 1, MPI_INT, 0, comm, &request[0]));
        OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request[1]));
        OK(MPI_Ibcast(all, 4000, MPI_INT, 0, comm, &request[2]));
        OK(MPI_Comm_free(&comm));
        if (round % ranks == rank)
            usleep(200);
        OK(MPI_Waitall(3, request, MPI_STATUSES_IGNORE));
        CHECK(value == round && sum == ranks && all[3999] == 3999 + round);
        free(all);
    }
}

/* The library makes progress although no communicator is left that the layer serves. */
CASE(messages_proceed_when_the_communicator_is_freed)
{
    enum { BYTES = 1 << 22 };
    char *data = calloc(1, BYTES);
    MPI_Comm comm;
    int one = 1, sum = 0;
    MPI_Request reduction, sending = MPI_REQUEST_NULL;
    OK(MPI_Comm_dup(world, &comm));
    use_layer(comm);
    if (rank == 0)
        OK(MPI_Issend(data, BYTES, MPI_BYTE, 1, 11, world, &sending));
    if (rank == 1)
        OK(MPI_Recv(data, BYTES, MPI_BYTE, 0, 11, world, MPI_STATUS_IGNORE));
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &reduction));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Wait(&reduction, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
    free(data);
}

/* After a barrier one MPI_Iprobe finds a message that was sent before it. */
CASE(message_is_found_after_a_barrier)
{
    for (int round = 0; round < 2000; round++) {
        MPI_Request barrier, sending;
        int flag = 0, got = -1;
        OK(MPI_Isend(&round, 1, MPI_INT, next_rank, 9, world, &sending));
        OK(MPI_Ibarrier(world, &barrier));
        OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
        OK(MPI_Iprobe(previous_rank, 9, world, &flag, MPI_STATUS_IGNORE));
        CHECK(flag);
        OK(MPI_Recv(&got, 1, MPI_INT, previous_rank, 9, world, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
        CHECK(got == round);
    }
}

/* Requests of messages and of operations in one call, in which either may come first. */
CASE(messages_and_operations_are_waited_for_together)
{
    for (int round = 0; round < 500; round++) {
        MPI_Request requests[3];
        int got = -1, one = 1, sum = 0, index, order = round % 3;
        if (round % ranks == rank)
            usleep(50);
        OK(MPI_Irecv(&got, 1, MPI_INT, previous_rank, 10, world, &requests[order]));
        OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &requests[(order + 1) % 3]));
        OK(MPI_Isend(&round, 1, MPI_INT, next_rank, 10, world, &requests[(order + 2) % 3]));
        for (int i = 0; i < 3; i++) {
            OK(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE));
            CHECK(index != MPI_UNDEFINED);
        }
        OK(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE));
        CHECK(index == MPI_UNDEFINED && got == round && sum == ranks);
    }
}

/* Functions of the program, types with gaps, and long operands are the library's, in between. */
CASE(ours_and_the_librarys_alternate)
{
    enum { LONG = 100000 };
    static double in[LONG], out[LONG];
    struct {
        double value;
        int index;
    } pair = {-rank, rank}, least = {0, 0};
    for (int round = 0; round < 20; round++) {
        MPI_Request requests[3];
        int one = 1, sum = 0;
        for (int i = 0; i < LONG; i++)
            in[i] = rank + i;
        OK(MPI_Iallreduce(in, out, LONG, MPI_DOUBLE, MPI_SUM, world, &requests[0]));
        OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &requests[1]));
        OK(MPI_Iallreduce(&pair, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, world, &requests[2]));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        CHECK(sum == ranks && least.index == ranks - 1);
        for (int i = 0; i < LONG; i += 999)
            CHECK(out[i] == (double)ranks * i + ranks * (ranks - 1) / 2.0);
    }
}

static void expect_right_sum(void)
{
    int one = 1, sum = 0;
    MPI_Request request;
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(sum == ranks);
}

/* `error` is what the start returned; the others have MPI_ERR_OTHER at the end. */
static void expect_failure_of_rank_0(int error, int class, MPI_Request request)
{
    CHECK(class_of(error) == (rank == 0 ? class : MPI_SUCCESS));
    if (rank == 0)
        CHECK(request == MPI_REQUEST_NULL);
    else
        CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
    expect_right_sum();
}

CASE(wrong_arguments_of_rank_0_are_an_error)
{
    int value = 1, sum = 0, error;
    MPI_Request request;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    error = MPI_Iallreduce(rank == 0 ? NULL : &value, &sum, 1, MPI_INT, MPI_SUM, world, &request);
    expect_failure_of_rank_0(error, MPI_ERR_BUFFER, request);
    error = MPI_Iallreduce(&value, &sum, rank == 0 ? -1 : 1, MPI_INT, MPI_SUM, world, &request);
    expect_failure_of_rank_0(error, MPI_ERR_COUNT, request);
    error = MPI_Iallreduce(&value, &sum, 1, MPI_INT, rank == 0 ? MPI_OP_NULL : MPI_SUM, world,
                           &request);
    expect_failure_of_rank_0(error, MPI_ERR_OP, request);
}

/* Which the root is told, and not that the roots differ. */
CASE(wrong_root_of_rank_1_is_an_error)
{
    int value = 1, sum = 0;
    MPI_Request request;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    int error =
        MPI_Ireduce(&value, &sum, 1, MPI_INT, MPI_SUM, rank == 1 ? ranks : 0, world, &request);
    if (rank == 1)
        CHECK(class_of(error) == MPI_ERR_ROOT);
    else
        CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
    expect_right_sum();
}

/* Rank 0 passes more than the others expect. */
CASE(sizes_that_differ_are_an_error)
{
    int values[8] = {0}, error;
    MPI_Request request;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    OK(MPI_Ibcast(values, rank == 0 ? 8 : 4, MPI_INT, 0, world, &request));
    error = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(error == (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE));
    error = class_of(MPI_Iscatter(values, 2, MPI_INT, values + 6, 1, MPI_INT, 0, world, &request));
    CHECK(error == (rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    if (rank != 0)
        CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    expect_right_sum();
}

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    if (strcmp(argv[1], "messages_proceed_when_the_communicator_is_freed") != 0)
        use_layer(world);
    if (argc > 2 && strcmp(argv[1], "random") == 0)
        run_random((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
    else
        run_cases(argv + 1);
    return mpi_end();
}
