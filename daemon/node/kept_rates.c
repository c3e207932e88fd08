#include "daemon/node/kept_rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"

#define FILE_SIZE (KEPT_RATES_KEY_SIZE + KEPT_RATES_LINE_SIZE)

bool kept_rates_number(const char **next, const char *name, double *ret_number)
{
    size_t length = strlen(name);
    char *end;

    if (strncmp(*next, name, length) != 0 || (*next)[length] != ' ')
        return false;
    double number = strtod(*next + length + 1, &end);
    if (end == *next + length + 1 || !isfinite(number) || number < 0 ||
        (*end != ' ' && *end != '\0'))
        return false;
    *next = *end == ' ' ? end + 1 : end;
    *ret_number = number;
    return true;
}

void kept_rates_recall(const char *path, const char *key, char ret_line[KEPT_RATES_LINE_SIZE])
{
    CLEANUP(bytes_done) struct bytes content = {0};

    ret_line[0] = '\0';
    if (file_read(path, FILE_SIZE, &content, NULL))
        return;
    const char *text = (const char *)content.data;
    size_t length = strlen(key);
    if (!strncmp(text, key, length) && text[length] == '\n')
        snprintf(ret_line, KEPT_RATES_LINE_SIZE, "%.*s", (int)strcspn(text + length + 1, "\n"),
                 text + length + 1);
}

void kept_rates_keep(const char *path, const char *key, const char *line)
{
    char text[FILE_SIZE + 2];
    struct error error = {0};
    int length = snprintf(text, sizeof(text), "%s\n%s\n", key, line);

    if (length >= (int)sizeof(text))
        return;
    if (file_replace(path, text, (size_t)length, 0644, &error))
        log_warning("the measured rates are not kept: %s", error.text);
}
