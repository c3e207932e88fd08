#include "elastic/job_problems.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PLACE_SIZE 512
#define KEY_SIZE   256

/* The line of @key_path, or of the nearest section around it that is known. */
static unsigned find_line(const struct job_problems *problems, const char *key_path)
{
    char path[KEY_SIZE];
    if (problems->line_of == NULL || strlen(key_path) >= sizeof(path))
        return 0;
    memcpy(path, key_path, strlen(key_path) + 1);
    for (;;) {
        unsigned line = problems->line_of(problems->context, path);
        char *dot = strrchr(path, '.');
        if (line > 0 || dot == NULL)
            return line;
        *dot = '\0';
    }
}

static void append(struct job_problems *problems, const char *text)
{
    char *all = problems->error->text;
    size_t length = problems->count == 0 ? 0 : strlen(all);
    snprintf(all + length, ERROR_TEXT_SIZE - length, "%s%s", length > 0 ? "\n" : "", text);
}

void job_problem(struct job_problems *problems, const char *key_path, const char *format, ...)
{
    if (problems->error != NULL && problems->count < JOB_PROBLEMS_SHOWN) {
        char place[PLACE_SIZE], text[ERROR_TEXT_SIZE];
        unsigned line = find_line(problems, key_path);
        if (line > 0)
            snprintf(place, sizeof(place), "%s:%u: %s", problems->where, line, key_path);
        else
            snprintf(place, sizeof(place), "%s: %s", problems->where, key_path);
        size_t length = (size_t)snprintf(text, sizeof(text), "%s: ", place);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text + length, sizeof(text) - length, format, arguments);
        va_end(arguments);
        append(problems, text);
    }
    problems->count++;
}

int job_problems_result(struct job_problems *problems)
{
    if (problems->count == 0)
        return 0;
    if (problems->error == NULL)
        return -EINVAL;
    if (problems->count > JOB_PROBLEMS_SHOWN) {
        char text[64];
        snprintf(text, sizeof(text), "and %u more", problems->count - JOB_PROBLEMS_SHOWN);
        append(problems, text);
    }
    problems->error->code = -EINVAL;
    return -EINVAL;
}
