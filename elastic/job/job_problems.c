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

/* Return the start of the text of the told problem @index, or the end of all texts for the index
 * behind the last. */
static char *find_text(const struct job_problems *problems, unsigned index)
{
    char *text = problems->error->text;
    if (index == problems->told)
        return text + strlen(text);
    for (; index > 0; index--)
        text = strchr(text, '\n') + 1;
    return text;
}

/* Insert whole lines only, except for the first, and keep room for the count of the rest. */
static void insert(struct job_problems *problems, unsigned line, const char *text)
{
    size_t length = problems->told == 0 ? 0 : strlen(problems->error->text);
    size_t size = strlen(text);
    unsigned place = problems->told;
    problems->full |= problems->told == JOB_PROBLEMS_SHOWN ||
                      (problems->told > 0 && length + size + MORE_SIZE > ERROR_TEXT_SIZE);
    if (problems->full)
        return;
    if (problems->told == 0) {
        snprintf(problems->error->text, ERROR_TEXT_SIZE, "%s", text);
    } else {
        while (place > 0 && problems->lines[place - 1] > line)
            place--;
        bool last = place == problems->told;
        char *here = find_text(problems, place);
        memmove(here + size + 1, here, strlen(here) + 1);
        memcpy(last ? here + 1 : here, text, size);
        here[last ? 0 : size] = '\n';
        memmove(&problems->lines[place + 1], &problems->lines[place],
                (problems->told - place) * sizeof(problems->lines[0]));
    }
    problems->lines[place] = line;
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
        for (char *end = strchr(text, '\n'); end; end = strchr(end, '\n'))
            *end = ' '; /* of a value: a problem is one line */
        insert(problems, line, text);
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
