/* src/insitu/message.c: the message about the calling thread's last failure. */
#include "insitu/handle.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[512];

int insitu_fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return error;
}

const char *onespace_insitu_message(void)
{
    return text;
}
