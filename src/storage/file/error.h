/* src/storage/file/error.h: what went wrong, in words for the user. */
#ifndef ONESPACE_STORAGE_FILE_ERROR_H
#define ONESPACE_STORAGE_FILE_ERROR_H

/* Filled by functions that take one, when they fail. */
struct storage_error {
    char text[768];
};
/* Returns `result`, so that the caller can return it. */
__attribute__((format(printf, 3, 4))) int storage_fail(struct storage_error *error, int result,
                                                       const char *format, ...);

#endif
