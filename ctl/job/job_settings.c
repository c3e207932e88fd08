#include "ctl/job/job_settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/yaml/yaml_tree.h"
#include "elastic/job/edit_distance.h"
#include "elastic/job/job_schema.h"
#include "elastic/job/job_value.h"

#define KEY_SIZE 128

/* Return the object with the last word of "train.optimizer.lr"; create it if it is missing. */
static json_t *section_of(json_t *root, const char *path)
{
    json_t *section = root;

    for (const char *dot; section && (dot = strchr(path, '.')); path = dot + 1) {
        char word[KEY_SIZE];
        snprintf(word, sizeof(word), "%.*s", (int)(dot - path), path);
        json_t *inner = json_object_get(section, word);
        if (!inner && !json_object_set_new(section, word, json_object()))
            inner = json_object_get(section, word);
        section = inner;
    }
    return section;
}

/* Drop values equal to the defaults that other keys decide: these must be derived again. */
static int drop_derived(json_t *root, const struct job_spec *spec)
{
    AUTO_FREE struct job_spec *again = malloc(sizeof(*again));

    if (!again)
        return -ENOMEM;
    for (unsigned i = 0; i < job_schema_count; i++) {
        const struct schema_key *key = &job_schema[i];
        if (!key->default_from)
            continue;
        *again = *spec;
        key->default_from(again);
        AUTO_JSON json_t *is = job_value_encode(key, spec);
        AUTO_JSON json_t *would_be = job_value_encode(key, again);
        if (!is || !would_be)
            return -ENOMEM;
        if (json_equal(is, would_be))
            json_object_del(section_of(root, key->path), schema_last_word(key->path));
    }
    return 0;
}

/* Return the edit distance of the written text from a key, or from the key's last word, because
 * users often write only that. */
static unsigned distance_of(const char *written, const char *path)
{
    const char *last = schema_last_word(path);
    unsigned whole = edit_distance_is_close(written, path) ? edit_distance(written, path)
                                                           : EDIT_DISTANCE_WORD_MAX;
    unsigned word = edit_distance_is_close(written, last) ? edit_distance(written, last)
                                                          : EDIT_DISTANCE_WORD_MAX;

    return MIN(whole, word);
}

static const struct schema_key *find_key(const char *path, struct error *error)
{
    const struct schema_key *key = schema_find(path);
    const char *near = NULL;
    unsigned least = EDIT_DISTANCE_WORD_MAX;

    if (key)
        return key;
    for (unsigned i = 0; i < job_schema_count; i++) {
        unsigned distance = distance_of(path, job_schema[i].path);
        if (distance < least) {
            least = distance;
            near = job_schema[i].path;
        }
    }
    error_set(error, COMMAND_USAGE, "--set: a job file has no key \"%s\"%s%s%s", path,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return NULL;
}

static json_t *absolute(const struct schema_key *key, json_t *value)
{
    bool is_path = key->type == SCHEMA_PATH || key->type == SCHEMA_PATHS ||
                   (key->type == SCHEMA_SHARE_OR_PATH && json_is_string(value));
    const char *text = json_string_value(value);
    char folder[JOB_PATH_SIZE];

    if (!is_path || !text || !text[0] || text[0] == '/' || !getcwd(folder, sizeof(folder)))
        return value;
    json_t *path = json_sprintf("%s/%s", folder, text);
    json_decref(value);
    return path;
}

static int check_value(const struct schema_key *key, const json_t *value, struct error *error)
{
    char found[JOB_FOUND_SIZE], allowed[SCHEMA_TEXT_SIZE];
    AUTO_FREE struct job_spec *scratch = calloc(1, sizeof(*scratch));

    if (!scratch)
        return error_set(error, -ENOMEM, "no memory for a setting");
    if (job_value_decode(key, value, scratch))
        return 0;
    job_value_describe(value, found);
    schema_allowed(key, allowed);
    return error_set(error, COMMAND_USAGE, "--set: %s: found %s; needs %s", key->path, found,
                     allowed);
}

static int set_one(json_t *root, const char *setting, struct error *error)
{
    AUTO_YAML_TREE struct yaml_tree *tree = NULL;
    const char *equals = strchr(setting, '=');
    char path[KEY_SIZE];

    if (!equals || equals == setting || equals - setting >= KEY_SIZE)
        return error_set(error, COMMAND_USAGE,
                         "--set: \"%s\" is not KEY=VALUE, such as train.steps=200", setting);
    snprintf(path, sizeof(path), "%.*s", (int)(equals - setting), setting);
    const struct schema_key *key = find_key(path, error);
    if (!key)
        return COMMAND_USAGE;
    int status = yaml_tree_parse(equals + 1, strlen(equals + 1), "--set", &tree, error);
    if (status)
        return status;
    AUTO_JSON json_t *value = absolute(key, json_incref(yaml_tree_root(tree)));
    status = check_value(key, value, error);
    json_t *section = status ? NULL : section_of(root, path);
    if (!json_is_object(section)) /* a mistake in the file, reported when it is decoded */
        return status;
    return json_object_set(section, schema_last_word(path), value)
               ? error_set(error, -ENOMEM, "no memory for a setting")
               : 0;
}

int job_settings_edit(const struct arguments *arguments, json_t *root, struct error *error)
{
    const char *setting;
    int status = 0;

    for (unsigned i = 0; !status && (setting = arguments_each(arguments, "set", i)); i++)
        status = set_one(root, setting, error);
    return status;
}

int job_settings_apply(const struct arguments *arguments, struct job_spec *spec,
                       struct error *error)
{
    AUTO_JSON json_t *root = NULL;
    int status = 0;

    if (!arguments_has(arguments, "set"))
        return 0;
    root = job_spec_encode(spec);
    if (!root || drop_derived(root, spec))
        return error_set(error, -ENOMEM, "no memory for the settings");
    status = job_settings_edit(arguments, root, error);
    if (!status)
        status = job_spec_decode(root, "with --set", NULL, NULL, spec, error);
    return status == -EINVAL ? COMMAND_USAGE : status;
}
