/* cmd/gdb/script.c: the commands that attach gdb to the members of a space.
 *
 * Each member becomes an inferior with symbols of its own: gdb is given a task's program and its
 * load address, and finds the task's libraries, later ones too, through the program's own DT_DEBUG
 * entry. The root's inferior would see all tasks through the chain of debugger namespaces
 * (space/member.h). That chain is hidden meanwhile, because each code address must belong to one
 * inferior only: gdb inserts a breakpoint into the memory of each inferior, and all of them have
 * the same memory. It would take the first breakpoint for the original code of the second one and
 * leave it behind. The code of the space itself belongs to all inferiors, because all run it;
 * marked as read-only it gets hardware breakpoints, which are per thread. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/gdb/gdb.h"
#include "cmd/lib/files.h"
#include "cmd/lib/output.h"
#include "cmd/lib/user.h"
#include "cmd/ps/ps.h"
#include "space/child.h"

/* ---- Copying a program so that gdb can tell it from the original ----
 *
 * For every process of a space the kernel reports the root's program headers. gdb compares them
 * with those of the file that it was given. If they agree, it assumes that the file is loaded where
 * the root's program is, which is wrong for a task that runs the root's file. In a copy, another
 * p_align of PT_GNU_STACK, which has no effect, makes them differ. */

static int copy_bytes(int from, int to)
{
    struct stat stat;
    if (fstat(from, &stat) != 0)
        return -errno;
    for (off_t left = stat.st_size; left > 0;) {
        ssize_t done = sendfile(to, from, NULL, (size_t)left);
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        left -= done;
    }
    return 0;
}

static int alter(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr entry;
    if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
        return -ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + i * sizeof(entry));
        if (pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
            return -ENOEXEC;
        if (entry.p_type != PT_GNU_STACK)
            continue;
        entry.p_align += 16;
        return pwrite(fd, &entry, sizeof(entry), at) == sizeof(entry) ? 0 : -errno;
    }
    return -ENOEXEC;
}

/* Makes a copy, in `directory`, of the task's program at `path`, which is the root's too, that gdb
 * does not take for the root's. 0 or -errno. */
static int copy_program(const char *path, const char *directory, int pid, char copy[PATH_MAX])
{
    const char *name = strrchr(path, '/');
    snprintf(copy, PATH_MAX, "%s/%d-%.64s", directory, pid, name ? name + 1 : path);
    int from = user_open_regular(path);
    if (from < 0)
        return from;
    int to = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int result = to < 0 ? -errno : copy_bytes(from, to);
    if (result == -EEXIST) /* by an earlier onespace-attach */
        result = 0;
    else if (result == 0)
        result = alter(to);
    close(from);
    if (to >= 0)
        close(to);
    return result;
}

/* ---- Scripts ---- */

/* The path may be one that a program of another user has put into the memory of its space. */
int gdb_write_path(FILE *out, const char *path)
{
    if (path[0] != '/' || output_has_control(path))
        return -EINVAL;
    fputs("\"", out);
    for (; *path; path++) {
        if (strchr("\"\\", *path))
            fputs("\\", out);
        fputc(*path, out);
    }
    fputs("\"", out);
    return 0;
}

/* Whether gdb may be told to read it. A FIFO would block it. */
static int is_file(const char *path)
{
    struct stat status;
    return path[0] == '/' && !output_has_control(path) && stat(path, &status) == 0 &&
           S_ISREG(status.st_mode);
}

/* The task's program and its load address, as the task shows them to debuggers. -1 when it has not
 * done so yet. */
static int read_program(const struct ps_space *space, const struct ps_task *task,
                        char path[PATH_MAX], uintptr_t *bias)
{
    static struct space_slot slot;
    uintptr_t at = LAYOUT_REGISTRY + offsetof(struct space, slots) + task->slot * sizeof(slot);
    if (ps_copy(space->source_pid, at, &slot, sizeof(slot)) != 0 ||
        !(atomic_load(&slot.debug.program.maps) || atomic_load(&slot.debug.libraries.maps)) ||
        ps_copy(space->source_pid, slot.child_record + offsetof(struct child, program), path,
                PATH_MAX) != 0)
        return -1;
    path[PATH_MAX - 1] = 0;
    *bias = slot.debug.map.bias;
    return 0;
}

static int is_roots_program(const struct ps_space *space, const char *path)
{
    char link[64], root[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/%d/exe", space->root_pid);
    ssize_t length = readlink(link, root, sizeof(root) - 1);
    root[length > 0 ? length : 0] = 0;
    return strcmp(root, path) == 0;
}

static void print_code(FILE *out, const struct code *code)
{
    if (!is_file(code->path) || access(code->path, R_OK) != 0)
        return; /* replaced by another file meanwhile */
    fprintf(out, "add-symbol-file ");
    gdb_write_path(out, code->path);
    fprintf(out, " -o %#" PRIxPTR "\n", code->base);
}

static void print_task(FILE *out, const struct ps_space *space, const struct ps_task *task,
                       const struct code *code, const char *directory)
{
    char path[PATH_MAX], copy[PATH_MAX];
    uintptr_t bias;
    int has_program = read_program(space, task, path, &bias) == 0;
    if (has_program && !is_file(path)) {
        fprintf(stderr,
                "onespace gdb: task %d (pid %d) is shown without its program: the path %s is not "
                "absolute, has control characters or names no regular file\n",
                task->id, task->pid, output_clean(path));
        has_program = 0;
    }
    if (has_program && is_roots_program(space, path) &&
        copy_program(path, directory, task->pid, copy) == 0)
        strcpy(path, copy);
    fprintf(out, "add-inferior\nset $onespace_last = $onespace_last + 1\n"
                 "eval \"inferior %%d\", $onespace_last\n");
    if (has_program) {
        fprintf(out, "file ");
        gdb_write_path(out, path);
        fprintf(out, "\nsymbol-file ");
        gdb_write_path(out, path);
        fprintf(out, " -o %#" PRIxPTR "\n", bias);
    }
    fprintf(out, "attach %d\n", task->pid);
    if (has_program)
        print_code(out, code);
}

int gdb_is_member(const struct ps_task *task)
{
    return task->pid && !task->ended && strcmp(task->state, "executed") != 0;
}

/* gdb has the root from the start. */
static int is_to_be_attached(const struct ps_task *task)
{
    return task->id != 0 && gdb_is_member(task);
}

/* For displaced stepping over a breakpoint gdb copies the instruction to the program's entry point.
 * For all members that is the root's, and they would overwrite each other's copies: off. */
static void print_settings(FILE *out, const struct code *code)
{
    fprintf(out,
            "set pagination off\nset confirm off\nset exec-file-mismatch off\n"
            "set displaced-stepping off\nset mem inaccessible-by-default off\nmem %#" PRIxPTR
            " %#" PRIxPTR " ro\n"
            "set $onespace_last = 1\n",
            code->low, code->high);
}

static void print_end(FILE *out, const struct gdb_job *job, unsigned chosen)
{
    const char *self = file_self();
    if (!self || strchr(self, '\'') || output_has_control(self))
        self = "onespace"; /* the shell finds it by PATH */
    fprintf(out,
            "define onespace-attach\n"
            "shell '%s' gdb --added '%s' %d > '%s/added'\n"
            "source %s/added\nend\n"
            "document onespace-attach\nAttach to the tasks that were spawned since.\nend\n",
            self, job->directory, job->space->root_pid, job->directory, job->directory);
    fprintf(
        out,
        "set schedule-multiple on\nset confirm on\nset pagination on\ninferior %u\n"
        "echo onespace: the root and its tasks are attached; onespace-attach adds later ones\\n\n",
        chosen);
}

/* Opens the next script and puts it into argv. */
static FILE *next_script(struct gdb_job *job)
{
    char *path;
    if (asprintf(&path, "%s/%u", job->directory, job->argc) < 0)
        return NULL;
    job->argv[job->argc++] = "-x";
    job->argv[job->argc++] = path;
    return fopen(path, "we");
}

static int finish(FILE *script)
{
    if (script && fclose(script) == 0)
        return 0;
    perror("onespace gdb: cannot write gdb's commands to a directory in /tmp");
    return -1;
}

int gdb_write_scripts(struct gdb_job *job)
{
    const struct ps_space *space = job->space;
    struct code code;
    unsigned inferior = 1, chosen = 1;
    if (code_find(space, &code) != 0) {
        fprintf(stderr,
                "onespace gdb: the space of pid %d has ended, or its registry cannot be "
                "read\n",
                space->root_pid);
        return -1;
    }
    FILE *script = next_script(job);
    if (script) {
        print_settings(script, &code);
        fprintf(script, "attach %d\n", space->root_pid);
    }
    if (finish(script) != 0)
        return -1;
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        if (!is_to_be_attached(task))
            continue;
        inferior++;
        if (atoi(job->wanted) == task->pid)
            chosen = inferior;
        script = next_script(job);
        if (script)
            print_task(script, space, task, &code, job->directory);
        if (finish(script) != 0)
            return -1;
    }
    script = next_script(job);
    if (script)
        print_end(script, job, chosen);
    return finish(script);
}

void gdb_print_added(const struct ps_space *space, const char *directory)
{
    struct code code;
    if (code_find(space, &code) != 0)
        return;
    for (unsigned i = 0; i < space->task_count; i++)
        if (is_to_be_attached(&space->tasks[i]) && !access_tracer(space->tasks[i].pid))
            print_task(stdout, space, &space->tasks[i], &code, directory);
}
