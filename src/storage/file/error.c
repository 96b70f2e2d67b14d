/* src/storage/file/error.c: what went wrong, in words. */
#include <stdarg.h>
#include <stdio.h>

#include "storage/file/error.h"

int storage_fail(struct storage_error *error, int result, const char *format, ...)
{
    va_list list;
    if (!error)
        return result;
    va_start(list, format);
    vsnprintf(error->text, sizeof(error->text), format, list);
    va_end(list);
    return result;
}
