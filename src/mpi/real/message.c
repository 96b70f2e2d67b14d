/* src/mpi/real/message.c: see message.h. */
#include <stdarg.h>
#include <stdio.h>

#include "mpi/real/message.h"

void layer_message(int rank, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "onespace: rank %d: %s\n", rank, text); /* one write: lines stay whole */
}
