/* tests/fuzz/script_line_fuzz.c: any bytes as the first line of a script. */
#include "elf/internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_script_line line;
    memset(&line, 'x', sizeof(line));
    bool is_script = elf_parse_script_line((const char *)data, size, &line);
    if (!is_script)
        return 0;
    require(size >= 2 && data[0] == '#' && data[1] == '!');
    size_t name = strnlen(line.interpreter, sizeof(line.interpreter));
    size_t argument = strnlen(line.argument, sizeof(line.argument));
    require(name + argument + 2 <= ELF_SCRIPT_LINE);
    require(strpbrk(line.interpreter, " \t\n") == NULL);
    require(strchr(line.argument, '\n') == NULL);
    require(line.argument[0] != ' ' && line.argument[0] != '\t');
    require(line.has_argument || argument == 0);
    /* The text behind the first line has no effect. */
    const uint8_t *newline = memchr(data, '\n', size < ELF_SCRIPT_LINE ? size : ELF_SCRIPT_LINE);
    struct elf_script_line again;
    if (newline != NULL) {
        require(elf_parse_script_line((const char *)data, (size_t)(newline - data) + 1, &again));
        require(strcmp(again.interpreter, line.interpreter) == 0);
        require(strcmp(again.argument, line.argument) == 0);
    }
    return 0;
}
