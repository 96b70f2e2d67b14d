/* src/mpi/real/message.c: what the layer tells the user. */
#include <stdarg.h>
#include <stdio.h>

#include "mpi/window/window.h"

void layer_message(int rank, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "onespace: rank %d: %s\n", rank, text); /* one write: lines stay whole */
}
