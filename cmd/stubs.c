#include "commands.h"
int command_bench(int argc, char **argv) {(void)argc;(void)argv;return 2;}
