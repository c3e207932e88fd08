#include "daemon/config/config_lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/job/edit_distance.h"

unsigned config_lines_find(const char *text, const char *key)
{
    size_t length = strlen(key);

    for (unsigned line = 1; text; line++) {
        const char *at = text + strspn(text, " \t{,\"'");
        if (!strncmp(at, key, length) && strchr(" \t:\"'", at[length]))
            return line;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return 0;
}

int config_lines_add(struct error *error, const char *format, ...)
{
    char line[ERROR_TEXT_SIZE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (!error || error->code != -EINVAL)
        return error_set(error, -EINVAL, "%s", line);
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof(error->text) - used, "\n%s", line);
    return -EINVAL;
}

const char *config_lines_nearest(const char *written, config_name_at *name_at)
{
    const char *name;

    for (size_t i = 0; (name = name_at(i)); i++)
        if (edit_distance_is_close(written, name))
            return name;
    return NULL;
}

static bool is_key(const char *written, config_name_at *name_at)
{
    const char *name;

    for (size_t i = 0; (name = name_at(i)); i++)
        if (!strcmp(written, name))
            return true;
    return false;
}

/* A line that does not begin with a key belongs to the value above it. */
static bool continues(const char *line)
{
    return line[strspn(line, " -\t]}")] != '\0' && strchr(" -\t]}", line[0]);
}

/* Check one line, because the parser uses terms of its own and reports only the first mistake.
 * @ret_drop: the parser cannot read the line. */
static int check_line(const char *path, const char *text, config_name_at *name_at, unsigned line,
                      const char *at, bool *ret_drop, struct error *error)
{
    char key[64];

    *ret_drop = true;
    if (*at == '\t')
        return config_lines_add(
            error, "%s:%u: the line begins with a tab; YAML is indented with spaces", path, line);
    *ret_drop = false;
    if (sscanf(at, "%63[A-Za-z0-9_-]", key) != 1 || !strchr(" \t:", at[strlen(key)]))
        return 0;
    const char *value = at + strlen(key);
    value += strspn(value, " \t:");
    bool known = is_key(key, name_at);
    const char *near = known ? NULL : config_lines_nearest(key, name_at);
    if (!known)
        return config_lines_add(error, "%s:%u: %s: no such key; %s%s%s", path, line, key,
                                near ? "did you mean " : "firnd --help lists them",
                                near ? near : "", near ? "?" : "");
    const char *below = *value == '\n' ? value + 1 : NULL;
    *ret_drop = true;
    if (config_lines_find(text, key) < line)
        return config_lines_add(error, "%s:%u: %s stands here a second time, first on line %u",
                                path, line, key, config_lines_find(text, key));
    if (*value == '[' || *value == '{')
        return config_lines_add(
            error, "%s:%u: %s: needs one value; %c begins a list or a map unless quoted", path,
            line, key, *value);
    if (below && continues(below))
        return config_lines_add(error, "%s:%u: %s: needs one value; a list or a map follows", path,
                                line, key);
    *ret_drop = false;
    return 0;
}

static void blank(char *at)
{
    memset(at, ' ', strcspn(at, "\n"));
}

/* Report the keys of a file that is a list instead of a map. */
static int check_list(const char *path, char *text, struct error *error)
{
    unsigned line = 1;
    int status = 0;

    for (char *at = text; at; line++) {
        if (!strncmp(at, "- ", 2)) {
            status = status
                         ? status
                         : config_lines_add(error,
                                            "%s:%u: the file is a list; write its keys without '-'",
                                            path, line);
            at[0] = ' ';
        }
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return status;
}

int config_lines_check(const char *path, char *text, config_name_at *name_at, struct error *error)
{
    AUTO_FREE char *whole = strdup(text);
    unsigned line = 1;
    bool drop = false;
    int status = whole ? check_list(path, text, error) : -ENOMEM;

    for (char *at = text; whole && at && *at; line++) {
        bool dropped_before = drop && continues(at);
        int found = dropped_before ? 0 : check_line(path, whole, name_at, line, at, &drop, error);
        status = found ? found : status;
        if (drop)
            blank(at);
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return status;
}
