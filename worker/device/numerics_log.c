#include "worker/device/numerics_log.h"

#include <string.h>

#include "base/log.h"

/* True if @line of @length characters is a whole line of @text. */
static bool has_line(const char *text, const char *line, size_t length)
{
    for (const char *next; text && *text; text = next) {
        next = strchrnul(text, '\n');
        if ((size_t)(next - text) == length && memcmp(text, line, length) == 0)
            return true;
        next += *next != '\0';
    }
    return false;
}

void numerics_log_write(struct numerics_log *numerics, const struct kernel *kernel,
                        struct kernel_device *device)
{
    char *text = malloc(NUMERICS_DESCRIPTION_SIZE);

    if (!text)
        return;
    kernel->describe(device, text, NUMERICS_DESCRIPTION_SIZE);
    for (char *line = text, *end; *line; line = end) {
        end = strchrnul(line, '\n');
        if (end > line && !has_line(numerics->logged, line, (size_t)(end - line)))
            log_info("computes with: %.*s", (int)(end - line), line);
        end += *end != '\0';
    }
    free(numerics->logged);
    numerics->logged = text;
}

void numerics_log_done(struct numerics_log *numerics)
{
    free(numerics->logged);
    numerics->logged = NULL;
}
