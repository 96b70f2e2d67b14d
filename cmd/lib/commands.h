/* cmd/lib/commands.h: the subcommands of `onespace`. Each gets its own name as argv[0] and returns
 * an exit status. */
#ifndef ONESPACE_CMD_LIB_COMMANDS_H
#define ONESPACE_CMD_LIB_COMMANDS_H

int command_run(int argc, char **argv);
int command_mpiexec(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_map(int argc, char **argv);
int command_check(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_core(int argc, char **argv);
int command_gdb(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_report(int argc, char **argv);
int command_windows(int argc, char **argv);
int command_insitu(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_host(int argc, char **argv); /* started by shims, not by users */

/* What --help says, as help.h has it. */
extern const char run_help[], mpiexec_help[], ps_help[], map_help[], check_help[], doctor_help[],
    core_help[], gdb_help[], bench_help[], report_help[], windows_help[], insitu_help[],
    completion_help[];

struct command {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *purpose; /* NULL: not for users */
    const char *help;
};

/* Ends with an entry without a name. */
extern const struct command commands[];

#endif
