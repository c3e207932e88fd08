#include "elastic/job/job_problems.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/job/job_schema.h"

#define PLACE_SIZE 512
#define KEY_SIZE   256
#define MORE_SIZE  32 /* of "and 12 more" */

/* Return the line of @key_path, or of the nearest enclosing section with a known line. */
static unsigned find_line(const struct job_problems *problems, const char *key_path)
{
    char path[KEY_SIZE];
    if (!problems->line_of || strlen(key_path) >= sizeof(path))
        return 0;
    memcpy(path, key_path, strlen(key_path) + 1);
    for (;;) {
        unsigned line = problems->line_of(problems->context, path);
        char *dot = strrchr(path, '.');
        if (line > 0 || !dot)
            return line;
        *dot = '\0';
    }
}

/* Append whole lines only, except for the first, and keep room for the count of the rest. */
static void append(struct job_problems *problems, const char *text)
{
    char *all = problems->error->text;
    size_t length = problems->told == 0 ? 0 : strlen(all);
    problems->full |= problems->told == JOB_PROBLEMS_SHOWN ||
                      (problems->told > 0 && length + strlen(text) + MORE_SIZE > ERROR_TEXT_SIZE);
    if (problems->full)
        return;
    snprintf(all + length, ERROR_TEXT_SIZE - length, "%s%s", length > 0 ? "\n" : "", text);
    problems->told++;
}

bool job_problem_is_told(const struct job_problems *problems)
{
    return problems->error && problems->count >= problems->skip && !problems->full;
}

void job_problem(struct job_problems *problems, const char *key_path, const char *format, ...)
{
    if (job_problem_is_told(problems)) {
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

bool job_problems_good(const struct job_problems *problems, const char *prefix)
{
    for (unsigned i = 0; i < job_schema_count; i++)
        if (problems->bad[i] && strncmp(job_schema[i].path, prefix, strlen(prefix)) == 0)
            return false;
    return true;
}

int job_problems_result(struct job_problems *problems)
{
    if (problems->count == 0)
        return 0;
    if (!problems->error)
        return -EINVAL;
    unsigned more = problems->count - problems->skip - problems->told;
    if (more > 0) {
        size_t length = strlen(problems->error->text);
        snprintf(problems->error->text + length, ERROR_TEXT_SIZE - length, "\nand %u more", more);
    }
    problems->error->code = -EINVAL;
    return -EINVAL;
}
