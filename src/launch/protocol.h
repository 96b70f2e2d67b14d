/* src/launch/protocol.h: the messages between shim and host over a Unix stream socket.
 *
 *   shim                                  host
 *                                  <-     greeting
 *   request, text                  ->
 *                                  <-     reply HELD, for ranks with a token (say_once_claim)
 *                                  <-     reply SEND: the task is about to be made
 *   working directory, descriptors ->
 *                                  <-     reply ANSWER (the task's id and pid, or an error)
 *   signal (any number)            ->
 *                                  <-     reply NOTICE: a message, printed once per launch
 *                                  <-     reply ENDED (wait status)
 *
 * The host reads the working directory, and the new task the descriptors (request.c). The shim
 * sends them on demand only: the kernel counts the descriptors that a user has in flight against
 * RLIMIT_NOFILE.
 *
 * Before it sends more than a greeting, each side checks by the socket and /proc which process the
 * other is; a shim that declines the host only says so.
 * End-of-file tells that the other side is gone. Both run as the same user and are of the same
 * version: a shim that meets a host of another version reports it and fails, and a host closes the
 * connection. */
#ifndef ONESPACE_LAUNCH_PROTOCOL_H
#define ONESPACE_LAUNCH_PROTOCOL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/shared_header.h"
#include "launch/report.h"
#include "onespace.h"

#define PROTOCOL_MAGIC UINT64_C(0x31746f7270736e6f) /* "onsprot1" */

enum {
    PROTOCOL_FDS_MAX = 8192,
    PROTOCOL_FDS_PER_MESSAGE = 250,
    PROTOCOL_TEXT_MAX = 64 << 20,
    PROTOCOL_SPECULATION = 3 /* PR_SPEC_STORE_BYPASS and those after it */
};

/* Attributes of host and shim that /proc shows to no other process (identity.h). */
struct protocol_self_report {
    uint64_t timer_slack; /* ns */
    uint32_t personality;
    int32_t securebits, session_keyring;
    int32_t speculation[PROTOCOL_SPECULATION]; /* as PR_GET_SPECULATION_CTRL returns it */
    int32_t mdwe;                              /* as PR_GET_MDWE returns it */
};

/* Why a request asks for no task: the launch cannot have all its ranks in this space. */
enum protocol_absence {
    PROTOCOL_PRESENT,
    PROTOCOL_LOST,    /* the launch had a host before this one, which was killed */
    PROTOCOL_DECLINED /* the shim does not trust this host; argv[0] says why */
};

/* Whether the launcher combines exit statuses as Hydra does (host_launch.c), and is the shim's
 * parent. */
enum protocol_hydra { PROTOCOL_HYDRA_NONE, PROTOCOL_HYDRA_ABOVE, PROTOCOL_HYDRA_PARENT };

struct protocol_request {
    struct shared_header header;
    uint32_t flags; /* ONESPACE_SPAWN_* */
    uint32_t argc, envc;
    uint32_t text_size; /* argv and environment, each string with its terminating zero */
    uint32_t fd_count;  /* descriptors that the task inherits */
    int32_t number, ntasks;
    uint32_t has_directory; /* the working directory could be opened */
    uint32_t absence;       /* enum protocol_absence */
    uint64_t launch; /* equal for ranks that one launcher started together; with a number only */
    uint64_t stack_size;
    int32_t policy_mode; /* memory policy, 0: default */
    uint32_t hydra;      /* enum protocol_hydra */
    uint64_t policy_nodes[16];
    uint64_t signal_mask, ignored; /* bit n-1 for signal n */
    struct protocol_self_report self_report;
};

/* The host's first message, which shims of other versions understand, too. */
struct protocol_greeting {
    struct shared_header header;
    char file[256]; /* the host's program */
    struct protocol_self_report self_report;
};

/* Receives a greeting: 0 or -errno. A host of another version may send a shorter one: if the header
 * differs from this version's, self_report is empty. */
int protocol_receive_greeting(int socket, struct protocol_greeting *greeting);

/* A signal that the shim received. */
struct protocol_signal {
    int32_t number;
    int32_t is_queued; /* by sigqueue: it has a value, and goes to the task alone */
    uint64_t value;
};

enum protocol_kind {
    PROTOCOL_ANSWER = 1,
    PROTOCOL_ENDED,
    PROTOCOL_SEND,
    PROTOCOL_HELD,
    PROTOCOL_NOTICE
};

struct protocol_reply {
    uint32_t kind;
    int32_t error;                 /* ANSWER: 0 or -errno, with message */
    struct onespace_status status; /* ANSWER: id and pid; ENDED: all */
    struct report_total total;     /* ENDED, for the last task only */
    char message[1024];            /* the reason, a warning, or empty */
};

/* The header of this version, with which greetings and requests begin. */
struct shared_header protocol_header(void);

/* Whole transfers, restarted after signals: 0 or -errno; -EPIPE at end-of-file. */
int protocol_send(int socket, const void *data, size_t size);
int protocol_receive(int socket, void *data, size_t size);
/* Receives up to `size` bytes without blocking. The bytes received, which may be 0, or -errno. */
ssize_t protocol_receive_some(int socket, void *data, size_t size);
/* Descriptors with their numbers in the task. Sending waits while too many are in flight. -EMFILE:
 * the receiver's table is full. Receiving fails with -ETIMEDOUT at the deadline (CLOCK_MONOTONIC,
 * ns; UINT64_MAX: none), however slowly the peer sends. On every result the caller owns the
 * descriptors in `fds` that are not negative. */
int protocol_send_fds(int socket, const int *fds, const int32_t *numbers, unsigned count);
int protocol_receive_fds(int socket, int *fds, int32_t *numbers, unsigned count, uint64_t deadline);
/* Sends one message with descriptors, at least one, which travel with its first byte. Returns the
 * bytes sent, or -errno. waits: retry while too many descriptors are in flight; else -ETOOMANYREFS.
 */
ssize_t protocol_send_once(int socket, const void *data, size_t size, const int *fds,
                           unsigned count, int waits);
/* Like protocol_send. Sends the descriptor along, unless it is negative or too many are in flight.
 */
int protocol_send_with_fd(int socket, const void *data, size_t size, int fd);
/* Like protocol_receive. On every result *fd is the descriptor that was sent along, or -1. */
int protocol_receive_with_fd(int socket, void *data, size_t size, int *fd);

#endif
