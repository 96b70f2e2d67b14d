/* cmd/doctor/job.c: the same checks on each node of a job, started there by the job's launcher, in
 * one table: a finding of all nodes is said once, another one with the names of its nodes.
 *
 * A launcher passes the nodes' output on in pieces of its own size, and mixes the nodes. So a node
 * prints records of one size that divides the usual buffers, each by one write, and each record
 * names its node. A record that arrives damaged nevertheless is noticed and dropped, so all are
 * printed three times; if one is missing even so, its node is reported. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cmd/lib/array.h"
#include "cmd/lib/files.h"
#include "cmd/lib/output.h"

/* MARK, node, machine, process, finding, part, length, then so many bytes of text, "|", and spaces
 * up to the newline. A finding takes as many parts as its text needs; the last one is shorter than
 * PART_BYTES. The record of finding LAST ends a node's report: its text is the number of findings.
 * The number in MARK changes with the format, because nodes may have different versions. */
#define MARK "@onespace-doctor-1 "
enum { RECORD_BYTES = 512, NODE_SIZE = 65, PART_BYTES = 360, TEXT_SIZE = 8192, LAST = -1 };

/* ---- On a node ---- */

static const char name_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "._-";

/* The machine's name, or Slurm's name of the node: one machine can be several nodes. */
static const char *this_node(void)
{
    static char name[NODE_SIZE];
    const char *slurm = getenv("SLURMD_NODENAME");
    if (slurm)
        snprintf(name, sizeof(name), "%s", slurm);
    else if (gethostname(name, sizeof(name)) != 0)
        name[0] = 0;
    name[NODE_SIZE - 1] = 0;
    if (!name[0] || name[strspn(name, name_characters)])
        strcpy(name, "unnamed");
    return name;
}

/* Two machines may have the same name. */
static unsigned this_machine(void)
{
    static unsigned number;
    char id[64];
    if (!number && file_read_line("/proc/sys/kernel/random/boot_id", id, sizeof(id)) == 0)
        (void)sscanf(id, "%8x", &number);
    return number;
}

/* Process IDs can be equal in two containers. */
static unsigned this_process(void)
{
    static unsigned number;
    if (!number && getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
        number = (unsigned)getpid();
    return number;
}

static void write_record(int finding, int part, const char *text, int length)
{
    enum { LAUNCHER_READS_US = 1000 }; /* so that it rarely finds two records in its pipe */
    char record[RECORD_BYTES + 1];
    int used = snprintf(record, sizeof(record), MARK "%s %x %x %d %d %d %.*s|", this_node(),
                        this_machine(), this_process(), finding, part, length, length, text);
    snprintf(record + used, sizeof(record) - (size_t)used, "%*s\n", RECORD_BYTES - 1 - used, "");
    while (write(STDOUT_FILENO, record, RECORD_BYTES) < 0 && errno == EINTR)
        ;
    usleep(LAUNCHER_READS_US);
}

enum { FINDINGS_MAX = 256, TIMES_PRINTED = 3 };

static char *findings[FINDINGS_MAX];
static int finding_count;

void job_add_finding(const char *status, const char *subject, const char *finding, const char *fix)
{
    const char *const parts[] = {status, subject, finding, fix ? fix : ""};
    char text[TEXT_SIZE] = "";
    size_t used = 0;
    for (int i = 0; i < 4; i++) { /* without tabs in the parts, which separate them */
        snprintf(text + used, sizeof(text) - used, "%s", parts[i]);
        output_clean(text + used);
        used = strlen(text);
        if (i < 3 && used + 1 < sizeof(text))
            text[used++] = '\t';
    }
    if (finding_count < FINDINGS_MAX && (findings[finding_count] = strdup(text)))
        finding_count++;
}

static void write_finding(int finding)
{
    const char *text = findings[finding];
    int part = 0, length;
    do {
        length = (int)strnlen(text + part * PART_BYTES, PART_BYTES);
        write_record(finding, part, text + part * PART_BYTES, length);
        part++;
    } while (length == PART_BYTES);
}

void job_write_findings(void)
{
    char total[16];
    int length = snprintf(total, sizeof(total), "%d", finding_count);
    for (int i = 0; i < TIMES_PRINTED; i++) {
        for (int finding = 0; finding < finding_count; finding++)
            write_finding(finding);
        write_record(LAST, 0, total, length);
    }
}

/* ---- What the nodes have printed ---- */

struct finding {
    char *text;    /* status, subject, finding and fix, separated by tabs */
    size_t length; /* of those parts that have come */
    int is_complete, is_shown;
};

struct node {
    char name[NODE_SIZE];
    unsigned machine, process;
    int has_others; /* other processes on the same node, which did the same */
    int expected;   /* findings, by the last record; -1: it has not come */
    int count;      /* of findings that are complete, from the first one on */
    struct finding findings[FINDINGS_MAX];
};

static struct {
    struct node *nodes;
    size_t count, capacity;
} job;

static struct node *find_node(const char *name, unsigned machine, unsigned process)
{
    for (size_t i = 0; i < job.count; i++)
        if (strcmp(job.nodes[i].name, name) == 0 && job.nodes[i].machine == machine)
            return &job.nodes[i];
    struct node *nodes = array_grow(job.nodes, &job.capacity, job.count + 1, sizeof(*nodes));
    if (!nodes)
        return NULL;
    job.nodes = nodes;
    struct node *node = &nodes[job.count++];
    memset(node, 0, sizeof(*node));
    strcpy(node->name, name);
    node->machine = machine;
    node->process = process;
    node->expected = -1;
    return node;
}

/* Whether a finding has its four parts. The text must have no end of its own before `length`. */
static int is_finding(const char *text, size_t length)
{
    unsigned tabs = 0;
    for (size_t i = 0; i < length; i++)
        tabs += text[i] == '\t';
    return tabs == 3;
}

/* Takes a part of a finding if it is the next one of it. */
static void add_part(struct node *node, int finding, int part, const char *text, size_t length)
{
    struct finding *to = &node->findings[finding];
    if (to->is_complete || (size_t)part * PART_BYTES != to->length ||
        to->length + length >= TEXT_SIZE)
        return;
    char *longer = realloc(to->text, to->length + length + 1);
    if (!longer)
        return;
    memcpy(longer + to->length, text, length);
    to->length += length;
    longer[to->length] = 0;
    to->text = longer;
    to->is_complete = length < PART_BYTES && is_finding(longer, to->length);
    while (node->count < FINDINGS_MAX && node->findings[node->count].is_complete)
        node->count++;
}

static int is_complete(const struct node *node)
{
    return node->expected >= 0 && node->count == node->expected;
}

static void take_record(const char *line)
{
    char name[NODE_SIZE];
    unsigned machine, process;
    int finding, part, length, at = 0;
    if (sscanf(line, MARK "%64s %x %x %d %d %d%n", name, &machine, &process, &finding, &part,
               &length, &at) != 6 ||
        !at || name[strspn(name, name_characters)])
        return;
    struct node *node = find_node(name, machine, process);
    if (!node)
        return;
    const char *text = line + at + 1;
    int is_whole = line[at] == ' ' && part >= 0 && length >= 0 && length <= PART_BYTES &&
                   strnlen(text, (size_t)length + 1) == (size_t)length + 1 && text[length] == '|' &&
                   !memchr(text, '\n', (size_t)length);
    const char *after = is_whole ? text + length + 1 : "";
    after += strspn(after, " \r");
    is_whole = is_whole && *after == '\n'; /* else it is as if it had not come */
    if (node->process != process)
        node->has_others = 1;
    else if (is_whole && finding == LAST)
        node->expected = atoi(text);
    else if (is_whole && finding >= 0 && finding < FINDINGS_MAX)
        add_part(node, finding, part, text, (size_t)length);
}

static void take_output(const char *output)
{
    for (const char *line = strstr(output, MARK); line; line = strstr(line + 1, MARK))
        take_record(line);
}

/* ---- Names of nodes ---- */

/* "a, b, c and 5 more" */
enum { NAMES_SHOWN = 8, NAMES_SIZE = NAMES_SHOWN * (NODE_SIZE + 2) + 32 };

struct names {
    char text[NAMES_SIZE];
    unsigned count;
};

static void add_name(struct names *names, const char *name)
{
    size_t used = strlen(names->text);
    if (names->count++ < NAMES_SHOWN)
        snprintf(names->text + used, NAMES_SIZE - used, "%s%.64s", used ? ", " : "", name);
}

static const char *names_text(struct names *names)
{
    size_t used = strlen(names->text);
    if (names->count > NAMES_SHOWN)
        snprintf(names->text + used, NAMES_SIZE - used, " and %u more", names->count - NAMES_SHOWN);
    return names->text;
}

/* ---- The table ---- */

/* Findings such as free memory and times have other numbers on each node. So many that differ only
 * in numbers are shown; those that say what is wrong are all shown. */
enum { VARIANTS_SHOWN = 3 };

struct variants {
    const char *text; /* the first of them */
    unsigned shown;
    struct names left_out;
};

static struct {
    struct variants *items;
    size_t count, capacity;
} all_variants;

static int differ_only_in_numbers(const char *a, const char *b)
{
    static const char digits[] = "0123456789.";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b)
            return 0;
        if (!*a)
            return 1;
    }
}

/* NULL: out of memory. */
static struct variants *find_variants(const char *text)
{
    for (size_t i = 0; i < all_variants.count; i++)
        if (differ_only_in_numbers(all_variants.items[i].text, text))
            return &all_variants.items[i];
    struct variants *items = array_grow(all_variants.items, &all_variants.capacity,
                                        all_variants.count + 1, sizeof(*items));
    if (!items)
        return NULL;
    all_variants.items = items;
    items[all_variants.count] = (struct variants){.text = text};
    return &items[all_variants.count++];
}

/* Marks the finding on each node that has it. Returns on how many, and their names. */
static size_t mark_finding(const char *text, struct names *names)
{
    size_t having = 0;
    for (size_t i = 0; i < job.count; i++) {
        struct node *node = &job.nodes[i];
        int has = 0;
        for (int k = 0; k < node->count; k++)
            if (strcmp(node->findings[k].text, text) == 0)
                has = node->findings[k].is_shown = 1;
        if (has)
            add_name(names, node->name);
        having += has ? 1 : 0;
    }
    return having;
}

/* The four parts that is_finding has seen, in a copy that the next call overwrites. */
static void split_finding(const char *text, char *parts[4])
{
    static char copy[TEXT_SIZE];
    char *rest = copy;
    snprintf(copy, sizeof(copy), "%s", text);
    for (int i = 0; i < 4; i++)
        parts[i] = strsep(&rest, "\t");
}

static void say_finding(const char *text, const char *nodes)
{
    char *parts[4];
    split_finding(text, parts);
    doctor_say(doctor_status_from(parts[0]), parts[1], parts[3][0] ? parts[3] : NULL, "%s%s%s",
               nodes, nodes[0] ? ": " : "", parts[2]);
}

static void say_left_out(struct variants *variants)
{
    char *parts[4];
    split_finding(variants->text, parts);
    enum doctor_status status = doctor_status_from(parts[0]);
    doctor_say(status, parts[1], status == DOCTOR_GOOD ? NULL : "As above.",
               "%s: as the %d above, with other numbers", names_text(&variants->left_out),
               VARIANTS_SHOWN);
}

static void show_finding(const char *text)
{
    struct names names = {.count = 0};
    int is_common = mark_finding(text, &names) == job.count;
    struct variants *variants = is_common ? NULL : find_variants(text);
    int is_wrong = strncmp(text, "wrong\t", 6) == 0;
    if (variants && !is_wrong && variants->shown == VARIANTS_SHOWN)
        mark_finding(text, &variants->left_out);
    else
        say_finding(text, is_common ? "" : names_text(&names));
    if (variants && variants->shown < VARIANTS_SHOWN)
        variants->shown++;
}

/* In the order of the checks, so that what nodes say about one subject stands together. */
static void show_findings(void)
{
    for (int k = 0; k < FINDINGS_MAX; k++)
        for (size_t i = 0; i < job.count; i++)
            if (k < job.nodes[i].count && !job.nodes[i].findings[k].is_shown)
                show_finding(job.nodes[i].findings[k].text);
    for (size_t i = 0; i < all_variants.count; i++)
        if (all_variants.items[i].left_out.count)
            say_left_out(&all_variants.items[i]);
}

/* ---- The launcher ---- */

enum { JOB_TIMEOUT_MS = 300000, OUTPUT_BYTES = 64 << 20, COMMAND_SIZE = 1 << 16 };

/* A job whose nodes are known. */
struct allocation {
    char command[COMMAND_SIZE];          /* starts one process on each node */
    unsigned count;                      /* of nodes; 0: not known */
    const char *variable;                /* that names the file with the nodes; NULL: Slurm */
    char hosts[COMMAND_SIZE - PATH_MAX]; /* "a,b", or Slurm's "n[1-2]" */
};

/* Files with one node's name as each line's first word, in the order in which they are looked for.
 */
static const char *const host_files[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",
                                         "OAR_NODEFILE"};

static int is_in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
            return 1;
    return 0;
}

/* The different names in a file, separated by commas. Returns how many, 0 if one is no name. */
static unsigned hosts_in(const char *path, char *hosts, size_t size)
{
    char line[1024], name[256];
    unsigned count = 0;
    size_t used = 0;
    FILE *file = fopen(path, "re");
    hosts[0] = 0;
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%255s", name) != 1 || is_in_list(hosts, name))
            continue;
        if (name[strspn(name, name_characters)] || strlen(name) == sizeof(name) - 1 ||
            used + strlen(name) + 2 > size) {
            count = 0;
            break;
        }
        used += (size_t)snprintf(hosts + used, size - used, "%s%s", count ? "," : "", name);
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

/* 0, or -1 with a finding. */
static int find_mpiexec(struct allocation *allocation)
{
    char path[PATH_MAX], kind[MPI_KIND_SIZE];
    const char *file = getenv(allocation->variable);
    enum mpi_family family = MPI_FAMILY_UNKNOWN;
    allocation->count = hosts_in(file, allocation->hosts, sizeof(allocation->hosts));
    if (!allocation->count) {
        doctor_say(DOCTOR_WRONG, "job", "Name a launcher with --launcher.",
                   "%s=%s names no nodes, or is not readable", allocation->variable, file);
        return -1;
    }
    if (path_find("mpiexec", path) != 0 || mpi_ask_launcher(path, &family, kind) != 0 ||
        family == MPI_FAMILY_UNKNOWN) {
        doctor_say(
            DOCTOR_WRONG, "job",
            "Load the module of your MPI library, or name a launcher with --launcher.",
            "%u nodes are in the file of %s, but there is no mpiexec of MPICH or Open MPI in "
            "PATH to start on them",
            allocation->count, allocation->variable);
        return -1;
    }
    snprintf(allocation->command, sizeof(allocation->command),
             family == MPI_FAMILY_HYDRA ? "mpiexec -hosts %s -ppn 1 -n %u"
                                        : "mpiexec --host %s --map-by ppr:1:node -n %u",
             allocation->hosts, allocation->count);
    return 0;
}

/* Within a step of Slurm another one waits for its resources, unless both may use them. */
static void use_srun(struct allocation *allocation)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    snprintf(allocation->hosts, sizeof(allocation->hosts), "%s", list ? list : "");
    snprintf(allocation->command, sizeof(allocation->command),
             "srun --nodes=%u --ntasks=%u --ntasks-per-node=1 --mem=0%s", allocation->count,
             allocation->count, getenv("SLURM_STEP_ID") ? " --overlap" : "");
}

/* The allocation in which this command runs. 0, or -1 with a finding. */
static int find_allocation(struct allocation *allocation)
{
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    allocation->count = getenv("SLURM_JOB_ID") && nodes ? (unsigned)atoi(nodes) : 0;
    if (allocation->count) {
        use_srun(allocation);
        return 0;
    }
    for (size_t i = 0; i < sizeof(host_files) / sizeof(host_files[0]); i++)
        if (getenv(host_files[i])) {
            allocation->variable = host_files[i];
            return find_mpiexec(allocation);
        }
    doctor_say(DOCTOR_WRONG, "job",
               "Start it inside an allocation, or name a launcher: --launcher \"mpiexec -hosts a,b "
               "-ppn 1\".",
               "this is no job of a batch system: SLURM_JOB_ID, PBS_NODEFILE, LSB_DJOB_HOSTFILE, "
               "PE_HOSTFILE and OAR_NODEFILE are not set");
    return -1;
}

/* The checks are for processes of the node, not for tasks: so what makes tasks of a launcher's
 * processes is off. Launchers pass this environment on, and with it the name of this node. */
static void clean_environment(void)
{
    static const char *const agents[] = {"OMPI_MCA_orte_fork_agent",
                                         "PRTE_MCA_prte_odls_base_exec_agent",
                                         "SLURM_SPANK__SLURM_SPANK_OPTION_onespace_onespace"};
    for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
        unsetenv(agents[i]);
    setenv("ONESPACE_SRUN", "off", 1);
    unsetenv("SLURMD_NODENAME");
}

/* ---- Whether all nodes answered ---- */

/* The last line with a word that is not a node's. Changes the output. */
static const char *launchers_reason(char *output)
{
    for (char *record = output; (record = strstr(record, MARK)); record++)
        for (char *at = record; *at && *at != '\n'; at++)
            *at = ' ';
    return doctor_reason(output);
}

static void name_missing(struct allocation *allocation, struct names *names)
{
    char *save;
    for (char *name = strtok_r(allocation->hosts, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        int has_answered = 0;
        for (size_t i = 0; i < job.count; i++) {
            size_t length = strcspn(job.nodes[i].name, ".");
            has_answered |=
                strcspn(name, ".") == length && strncmp(job.nodes[i].name, name, length) == 0;
        }
        if (!has_answered)
            add_name(names, name);
    }
}

static void say_nodes(struct allocation *allocation, int status, char *output)
{
    static const char subject[] = "nodes", fix[] = "See whether the command works by hand.";
    struct names damaged = {.count = 0}, several = {.count = 0}, answered = {.count = 0};
    struct names missing = {.count = 0};
    for (size_t i = 0; i < job.count; i++) {
        const struct node *node = &job.nodes[i];
        add_name(is_complete(node) ? &answered : &damaged, node->name);
        if (node->has_others)
            add_name(&several, node->name);
    }
    if (answered.count)
        doctor_say(DOCTOR_GOOD, subject, NULL, "%u answered: %s", answered.count,
                   names_text(&answered));
    if (job.count < allocation->count && allocation->variable)
        name_missing(allocation, &missing);
    if (missing.count)
        doctor_say(DOCTOR_WRONG, subject, fix, "%u of %u did not answer: %s",
                   allocation->count - (unsigned)job.count, allocation->count,
                   names_text(&missing));
    else if (job.count < allocation->count)
        doctor_say(DOCTOR_WRONG, subject, fix, "%u of %u did not answer (%.200s)",
                   allocation->count - (unsigned)job.count, allocation->count, allocation->hosts);
    if (damaged.count)
        doctor_say(DOCTOR_WRONG, subject, fix, "not all findings arrived from %s",
                   names_text(&damaged));
    if (several.count)
        doctor_say(DOCTOR_WARNING, subject, "Let the launcher start one process on each node.",
                   "several processes checked %s at the same time", names_text(&several));
    if (status == -ETIMEDOUT)
        doctor_say(DOCTOR_WRONG, "launcher of the job", fix, "%.200s: no end in five minutes",
                   allocation->command);
    else if (status != 0 || !job.count)
        doctor_say(DOCTOR_WRONG, "launcher of the job", fix, "%.200s: %s", allocation->command,
                   launchers_reason(output));
}

/* Runs the launcher. Its wait status, or a negative error number. */
static int start_checks(const struct allocation *allocation, char *output)
{
    static char script[COMMAND_SIZE + 32];
    char *argv[] = {"sh", "-c", script, "sh", (char *)file_self(), "doctor", "--as-node", NULL};
    snprintf(script, sizeof(script), "exec %s \"$@\"", allocation->command);
    clean_environment();
    return doctor_command(argv, output, OUTPUT_BYTES, JOB_TIMEOUT_MS);
}

void doctor_job(const char *launcher)
{
    static struct allocation allocation;
    if (!launcher && find_allocation(&allocation) != 0)
        return;
    if (launcher && snprintf(allocation.command, sizeof(allocation.command), "%s", launcher) >=
                        (int)sizeof(allocation.command)) {
        doctor_say(DOCTOR_WRONG, "job", "Shorten it.", "the launcher's command line is too long");
        return;
    }
    char *output = malloc(OUTPUT_BYTES);
    if (!file_self() || !output) {
        doctor_say(DOCTOR_WRONG, "job", output ? "Mount /proc." : "Free some memory.", "%s",
                   output ? "/proc cannot be read" : "out of memory");
        free(output);
        return;
    }
    int status = start_checks(&allocation, output);
    take_output(output);
    say_nodes(&allocation, status, output);
    show_findings();
    free(output);
}
