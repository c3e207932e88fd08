/* A failure with a text for users: the event, its place, and the next step. */
#pragma once

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ERROR_TEXT_SIZE 1024

struct error {
    int code; /* negative errno, or 0 while nothing has failed */
    char text[ERROR_TEXT_SIZE];
};

/**
 * error_set() - record a failure
 * @error: may be NULL: then only the code is returned
 * @code: negative errno
 *
 * Return: @code, so that a caller can write `return error_set(...)`. It is a macro so that the
 * compiler sees the value of the code and does not treat a failure as a success later.
 */
#define error_set(error, code, ...)                                                                \
    ({                                                                                             \
        int error_code_ = (code);                                                                  \
        error_record((error), error_code_, __VA_ARGS__);                                           \
        error_code_;                                                                               \
    })

/** error_record() - record the failure for error_set() */
void error_record(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** error_prefix() - put context before the text of an existing error ("reading x: ") */
void error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** error_clear() - reset to "no failure" */
void error_clear(struct error *error);

#ifdef __cplusplus
}
#endif
