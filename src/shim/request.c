/* src/shim/request.c: see request.h. */
#include "shim/request.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "host/identity/identity.h"
#include "spawn/spawn.h"

extern char **environ;

/* Every open descriptor that the task inherits. */
static int collect_fds(struct sent_fds *sent)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return -errno;
    for (struct dirent *entry; (entry = readdir(list));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || (fcntl(fd, F_GETFD) & FD_CLOEXEC))
            continue; /* this list and the socket, too */
        if (sent->count == PROTOCOL_FDS_MAX) {
            closedir(list);
            return -EMFILE;
        }
        sent->fds[sent->count++] = fd;
    }
    closedir(list);
    return 0;
}

static char *join_texts(char *const *argv, char *const *envp, struct protocol_request *request)
{
    size_t size = 0, at = 0;
    char *const *vectors[] = {argv, envp};
    for (int v = 0; v < 2; v++)
        for (char *const *text = vectors[v]; *text; text++)
            size += strlen(*text) + 1;
    char *texts = size <= PROTOCOL_TEXT_MAX ? malloc(size + 1) : NULL;
    if (!texts)
        return NULL;
    for (int v = 0; v < 2; v++)
        for (char *const *text = vectors[v]; *text; text++) {
            size_t length = strlen(*text) + 1;
            memcpy(texts + at, *text, length);
            at += length;
            v == 0 ? request->argc++ : request->envc++;
        }
    request->text_size = (uint32_t)size;
    return texts;
}

static int hydra_socket(void)
{
    const char *text = getenv("PMI_FD");
    return text ? atoi(text) : -1;
}

static void fill_request(struct protocol_request *request, const struct shim_job *job,
                         const sigset_t *mask)
{
    request->signal_mask = signal_set_bits(mask);
    request->ignored = ignored_signals_of_process();
    request->header = protocol_header();
    identity_tell(&request->told);
    request->flags = job->flags;
    /* Hydra gives each rank a session, and the kernel divides CPU time among sessions (autogroup).
     */
    if (getsid(0) == getpid())
        request->flags |= ONESPACE_SPAWN_SESSION;
    request->number = job->number;
    request->ntasks = job->ntasks;
    request->launch = hash_text(HASH_SEED, job->launch);
    request->stack_size = job->stack_size;
    request->is_hydra = hydra_socket() >= 0;
    if (syscall(SYS_get_mempolicy, &request->policy_mode, request->policy_nodes, 1024, NULL, 0) !=
        0)
        request->policy_mode = 0;
}

/* To a launcher an open descriptor means a living rank, so the shim closes its own copies once the
 * task has them. It keeps two: standard error for its own messages, and Hydra's socket, because
 * Hydra takes end-of-file before the shim's exit status for a crash of the rank. */
void request_close_copies(const struct sent_fds *sent)
{
    int hydra = hydra_socket();
    for (unsigned i = 0; i < sent->count; i++)
        if (sent->fds[i] != STDERR_FILENO && sent->fds[i] != hydra)
            close(sent->fds[i]);
}

int request_send(int socket, const struct shim_job *job, struct sent_fds *sent,
                 const sigset_t *mask)
{
    struct protocol_request request = {0};
    sent->count = 0;
    fill_request(&request, job, mask);
    int result = collect_fds(sent);
    char *texts = result < 0 ? NULL : join_texts(job->argv, environ, &request);
    if (!texts)
        return result < 0 ? result : -E2BIG;
    sent->directory = open(".", O_PATH | O_CLOEXEC);
    request.has_directory = sent->directory >= 0;
    request.fd_count = sent->count;
    result = protocol_send(socket, &request, sizeof(request));
    if (result == 0)
        result = protocol_send(socket, texts, request.text_size);
    free(texts);
    return result;
}

int request_send_absence(int socket, const struct shim_job *job, enum protocol_absence absence,
                         const char *word)
{
    struct protocol_request request = {.header = protocol_header(),
                                       .absence = absence,
                                       .number = job->number,
                                       .ntasks = job->ntasks,
                                       .launch = hash_text(HASH_SEED, job->launch),
                                       .argc = 1};
    request.text_size = (uint32_t)strlen(word) + 1;
    int result = protocol_send(socket, &request, sizeof(request));
    return result < 0 ? result : protocol_send(socket, word, request.text_size);
}

int request_send_fds(int socket, struct sent_fds *sent)
{
    static const int32_t none = -1;
    int result = 0;
    if (sent->directory >= 0) {
        result = protocol_send_fds(socket, &sent->directory, &none, 1);
        close(sent->directory);
    }
    if (result == 0) /* each keeps its number */
        result = protocol_send_fds(socket, sent->fds, sent->fds, sent->count);
    return result;
}
