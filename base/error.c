/* The text of a failure is truncated rather than allocated, so that recording it never fails. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

void error_record(struct error *error, int code, const char *format, ...)
{
    if (!error)
        return;
    /* The arguments may point into the old text ("%s", error->text), so it is replaced last. */
    char text[ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    error->code = code;
    memcpy(error->text, text, strlen(text) + 1);
}

void error_prefix(struct error *error, const char *format, ...)
{
    if (!error || error->code == 0)
        return;
    char prefix[ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof(prefix), format, arguments);
    va_end(arguments);

    size_t prefix_size = strlen(prefix);
    size_t room = sizeof(error->text) - 1 - prefix_size;
    size_t text_size = strnlen(error->text, room);
    memmove(error->text + prefix_size, error->text, text_size);
    memcpy(error->text, prefix, prefix_size);
    error->text[prefix_size + text_size] = '\0';
}

void error_clear(struct error *error)
{
    if (!error)
        return;
    error->code = 0;
    error->text[0] = '\0';
}
