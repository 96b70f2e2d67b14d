/* tests/fuzz/request_fuzz.c: any bytes as what a shim sends to its host, over a real socket.
 *
 * The first byte says what is made right before the rest is sent, since hardly any input would get
 * past the header otherwise: REAL_HEADER, and REAL_SIZE, the size of the texts. Beyond not
 * crashing: all words of a request that is accepted lie in its texts. */
#include "host/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REAL_HEADER = 1, REAL_SIZE = 2 };

static void require(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void check_words(const struct job *job, char *const *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        require(words[i] >= job->texts, "words begin in the texts");
        require(words[i] + strlen(words[i]) < job->texts + job->request.text_size,
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
    struct job *job = calloc(1, sizeof(*job));
    int32_t number;
    int directory = -1;
    require(job != NULL, "memory");
    if (job_receive(job, socket) == 1) {
        check_words(job, job->argv, job->request.argc);
        check_words(job, job->envp, job->request.envc);
        (void)protocol_receive_fds(socket, &directory, &number, 1, UINT64_MAX);
        require(directory == -1, "no descriptor");
    }
    job_free(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
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
