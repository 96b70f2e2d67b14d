/* tests/fuzz/request_fuzz.c: any bytes as what a shim sends to its host, over a real socket.
 *
 * The first byte says what is made right before the rest is sent, since hardly any input would get
 * past the header otherwise: REAL_HEADER, and REAL_SIZE, the size of the texts. Beyond not
 * crashing: all words of a request that is accepted lie in its texts. */
#include "launch/host.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

enum { REAL_HEADER = 1, REAL_SIZE = 2 };

/* request.c starts tasks, too, which the fuzzer does not. */
int identity_assume(void *argument)
{
    (void)argument;
    return 0;
}

int onespace_spawn(const char *program, char *const argv[], char *const envp[],
                   const struct onespace_spawn_attr *attr)
{
    (void)program, (void)argv, (void)envp, (void)attr;
    return -1;
}

static void check_words(const struct request *request, char *const *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        require(words[i] >= request->text, "words begin in the texts");
        require(words[i] + strlen(words[i]) < request->text + request->head.text_size,
                "words end in the texts");
    }
    require(words[count] == NULL, "the end of the words");
}

static void make_right(struct protocol_request *request, size_t text_size, unsigned what)
{
    if (what & REAL_HEADER)
        request->header = protocol_header();
    if (what & REAL_SIZE)
        request->text_size = (uint32_t)text_size;
}

/* The working directory comes last, as a descriptor; here none is sent. */
static void receive(int socket)
{
    struct request *request = calloc(1, sizeof(*request));
    int32_t number;
    int directory = -1;
    require(request != NULL, "memory");
    if (request_receive(request, socket) == 1) {
        check_words(request, request->argv, request->head.argc);
        check_words(request, request->envp, request->head.envc);
        (void)protocol_receive_fds(socket, &directory, &number, 1, UINT64_MAX);
        require(directory == -1, "no descriptor");
    }
    request_free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct protocol_request request;
    int ends[2];
    if (size == 0)
        return 0;
    unsigned what = *data++;
    size--;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    if (size >= sizeof(request)) {
        memcpy(&request, data, sizeof(request));
        make_right(&request, size - sizeof(request), what);
        require(protocol_send(ends[0], &request, sizeof(request)) == 0, "sending the request");
        data += sizeof(request);
        size -= sizeof(request);
    }
    require(protocol_send(ends[0], data, size) == 0, "sending the rest");
    close(ends[0]);
    receive(ends[1]);
    close(ends[1]);
    return 0;
}
