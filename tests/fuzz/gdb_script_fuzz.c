/* tests/fuzz/gdb_script_fuzz.c: any bytes as the path of a task's program, as its memory tells it
 * to `onespace gdb`.
 *
 * The first byte says whether there is a file of that path. Each line that is written begins with a
 * command that onespace knows, paths are one word as gdb splits a line, and that word is the path.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/gdb/gdb.h"
#include "cmd/lib/output.h"
#include "cmd/ps/ps.h"
#include "false_memory.h"
#include "space/child.h"

enum { SLOT = 1 };
#define SLOT_AT (LAYOUT_REGISTRY + offsetof(struct space, slots) + SLOT * sizeof(struct space_slot))
static const uint64_t child_at = LAYOUT_REGION + LAYOUT_RANGE;

static void check_lines(const char *text)
{
    static const char *const known[] = {"add-inferior", "set ",         "eval ",
                                        "file ",        "symbol-file ", "attach ",
                                        "inferior",     "mem ",         "add-symbol-file ",
                                        "define ",      "shell ",       "source ",
                                        "end",          "document ",    "Attach ",
                                        "echo "};
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        unsigned found = 0;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found |= strncmp(line, known[i], strlen(known[i])) == 0;
        require(found && strchr(line, '\n'), "a command that is known, and a whole line");
    }
}

/* As gdb_buildargv: quotes, and a backslash before any character. */
static void check_word(const char *path)
{
    char *text = NULL;
    size_t size = 0, at = 0;
    FILE *out = open_memstream(&text, &size);
    require(out != NULL, "memory");
    int result = gdb_write_path(out, path);
    fclose(out);
    int is_refused = path[0] != '/' || output_has_control(path);
    require((result != 0) == is_refused && (result == 0 || size == 0), "refused as it must be");
    require_no_control(text, size);
    if (result == 0) {
        require(text[0] == '"' && size >= 2 && text[size - 1] == '"', "quotes");
        for (const char *from = text + 1; from < text + size - 1; from++, at++) {
            require(*from != '"', "one word");
            from += *from == '\\';
            require(from < text + size - 1 && *from == path[at], "the path");
        }
        require(path[at] == 0, "all of the path");
    }
    free(text);
}

/* The script for a task whose memory says that this is its program. */
static void check_script(const char *path)
{
    struct ps_member member = false_memory_member();
    struct ps_task task = {.id = 1, .pid = member.pid, .slot = SLOT, .state = "running"};
    struct ps_space space = {.root_pid = member.pid,
                             .source_pid = member.pid,
                             .key = {member.space, member.user, member.group},
                             .tasks = &task,
                             .task_count = 1};
    char *argv[32] = {NULL}, script[1 << 16];
    struct gdb_job job = {
        .space = &space, .wanted = "1", .argv = argv, .directory = "/tmp/fuzz.XXXXXX"};
    static struct space_slot slot;
    static struct child child;
    void (*inside)(void) = (void (*)(void))check_lines;
    atomic_store(&slot.debug.program.maps, 1);
    slot.child_record = child_at;
    snprintf(child.program, sizeof(child.program), "%s", path);
    false_memory_write(SLOT_AT, &slot, sizeof(slot));
    false_memory_write(child_at, &child, sizeof(child));
    false_memory_write(LAYOUT_REGISTRY + offsetof(struct space, operations) +
                           offsetof(struct space_operations, interpose),
                       &inside, sizeof(inside));
    require(mkdtemp(job.directory) != NULL, "a directory");
    int messages = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    int result = gdb_write_scripts(&job);
    dup2(messages, STDERR_FILENO);
    close(messages);
    close(nowhere);
    for (unsigned i = 1; i < job.argc; i += 2) {
        int fd = open(argv[i], O_RDONLY);
        ssize_t size = fd < 0 ? 0 : read(fd, script, sizeof(script) - 1);
        close(fd);
        script[size > 0 ? size : 0] = 0;
        require(result != 0 || size > 0, "a script");
        check_lines(script);
        unlink(argv[i]);
        free(argv[i]);
    }
    rmdir(job.directory);
}

/* For the programs. */
static char directory[] = "/tmp/fuzz-program.XXXXXX";
static int has_directory;

static void remove_directory(void)
{
    rmdir(directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[PATH_MAX];
    if (size < 2)
        return 0;
    if (!has_directory++) {
        require(mkdtemp(directory) != NULL, "a directory");
        atexit(remove_directory);
    }
    int has_file = data[0] & 1;
    int length = (int)(size - 1 < PATH_MAX / 2 ? size - 1 : PATH_MAX / 2);
    snprintf(path, sizeof(path), "%s%.*s", has_file ? directory : "", length,
             (const char *)data + 1);
    if (has_file) {
        snprintf(path, sizeof(path), "%s/%.*s", directory, length, (const char *)data + 1);
        has_file = !strchr(path + sizeof(directory), '/') && path[sizeof(directory)] &&
                   close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0;
    }
    check_word(path);
    if (has_file || (data[0] & 6) == 6)
        check_script(path);
    if (has_file)
        unlink(path);
    return 0;
}
