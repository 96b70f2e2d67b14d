/* src/host/job/receive.c: a shim's request, from the socket to words. What comes may be anything:
 * see tests/fuzz/request_fuzz.c. */
#include "host/job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int split_texts(struct job *job)
{
    const struct protocol_request *request = &job->request;
    char *at = job->texts, *end = at + request->text_size;
    job->argv = calloc(request->argc + 1u, sizeof(char *));
    job->envp = calloc(request->envc + 1u, sizeof(char *));
    if (!job->argv || !job->envp)
        return -ENOMEM;
    for (uint32_t i = 0; i < request->argc + request->envc; i++) {
        char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            return -EPROTO;
        *(i < request->argc ? &job->argv[i] : &job->envp[i - request->argc]) = at;
        at = zero + 1;
    }
    return 0;
}

/* The head of the request has arrived: memory for the rest. */
static int prepare(struct job *job)
{
    const struct protocol_request *request = &job->request;
    struct shared_header own = protocol_header();
    if (!shared_header_matches(&request->header, &own) || request->fd_count > PROTOCOL_FDS_MAX ||
        request->text_size > PROTOCOL_TEXT_MAX || request->argc == 0 ||
        request->argc > request->text_size || request->envc > request->text_size)
        return -EPROTO;
    job->descriptors.count = request->fd_count;
    job->descriptors.fds = calloc(request->fd_count + 1u, sizeof(int));
    job->descriptors.numbers = calloc(request->fd_count + 1u, sizeof(int32_t));
    job->texts = malloc(request->text_size + 1u);
    if (!job->texts || !job->descriptors.fds || !job->descriptors.numbers)
        return -ENOMEM;
    return 0;
}

int job_receive(struct job *job, int socket)
{
    size_t head = sizeof(job->request);
    while (job->received < head) {
        ssize_t got = protocol_receive_some(socket, (char *)&job->request + job->received,
                                            head - job->received);
        if (got <= 0)
            return (int)got;
        job->received += (size_t)got;
        int result = job->received == head ? prepare(job) : 0;
        if (result < 0)
            return result;
    }
    size_t size = job->request.text_size;
    while (job->received - head < size) {
        size_t done = job->received - head;
        ssize_t got = protocol_receive_some(socket, job->texts + done, size - done);
        if (got <= 0)
            return (int)got;
        job->received += (size_t)got;
    }
    int result = split_texts(job);
    return result < 0 ? result : 1;
}

void job_free(struct job *job)
{
    free(job->descriptors.fds);
    free(job->descriptors.numbers);
    free(job->texts);
    free(job->argv);
    free(job->envp);
    free(job->change.has.groups);
    free(job->change.wants.groups);
    free(job);
}
