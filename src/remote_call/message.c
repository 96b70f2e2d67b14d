/* src/remote_call/message.c: the message about the calling thread's last failure. */
#include "onespace/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "remote_call/context.h"

static _Thread_local char text[384];

int call_fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return error;
}

const char *onespace_call_message(void)
{
    return text;
}
