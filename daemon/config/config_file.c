#include "daemon/config/config_file.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/yaml/yaml_tree.h"
#include "daemon/config/config_schema.h"

struct reading {
    const char *text; /* of the file */
    struct config_mistakes *mistakes;
    struct yaml_tree *tree;
};

static const char *find_line(const char *text, unsigned line)
{
    for (; line > 1 && text; line--) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text ? text : "";
}

/* Return the opening bracket of the value of "key: [...", or 0. */
static char opening_bracket(const char *line)
{
    const char *value = line + strcspn(line, ":\n");
    value += strspn(value, ": \t");
    return *value == '[' || *value == '{' ? *value : '\0';
}

/* Report a value that is a list or a map. */
static void add_shape(const struct reading *reading, const char *key, unsigned line)
{
    bool is_told = !config_mistakes_full(reading->mistakes); /* the search takes time */
    char bracket = is_told ? opening_bracket(find_line(reading->text, line)) : '\0';

    if (bracket)
        config_mistakes_add(reading->mistakes, line,
                            "%s: needs one value; %c begins a list or a map unless quoted", key,
                            bracket);
    else
        config_mistakes_add(reading->mistakes, line, "%s: needs one value; a list or a map follows",
                            key);
}

/* Add a YAML error. Replace libyaml's message for an address in brackets ("[fd00::1]:80") and for a
 * key behind a dash, which would mislead an operator. */
static void add_mistake(void *context, unsigned line, const char *words)
{
    const struct reading *reading = context;
    bool is_told = !config_mistakes_full(reading->mistakes); /* the search takes time */
    const char *at = is_told ? find_line(reading->text, line) : "";
    char key[64] = "";

    at += strspn(at, " \t");
    size_t length = strcspn(at, " \t:\n");
    if (length < sizeof(key))
        memcpy(key, at, length);
    if (config_key_find(key) && opening_bracket(at) && !strstr(words, "a second time"))
        add_shape(reading, key, line);
    else if (at[0] == '-' && strchr(" \t\n", at[1]))
        config_mistakes_add(reading->mistakes, line,
                            "'-' begins a list; write keys without it, and one value a key");
    else
        config_mistakes_add(reading->mistakes, line, "%s", words);
}

static void add_unknown(const struct reading *reading, const char *name, unsigned line)
{
    const char *near = config_mistakes_full(reading->mistakes) ? NULL : config_key_nearest(name);

    config_mistakes_add(reading->mistakes, line, "%.64s: no such key; %s%s%s", name,
                        near ? "did you mean " : "firnd --help lists them", near ? near : "",
                        near ? "?" : "");
}

static void take_value(const struct reading *reading, const char *name, const json_t *value,
                       struct config *config)
{
    const struct config_key *key = config_key_find(name);
    unsigned line = yaml_tree_line(reading->tree, name);
    char words[CONFIG_MISTAKE_SIZE];

    if (!key)
        add_unknown(reading, name, line);
    else if (json_is_object(value) || json_is_array(value))
        add_shape(reading, name, line);
    else if (json_is_string(value) &&
             config_key_decode(key, json_string_value(value), config, words, sizeof(words)))
        config_mistakes_add(reading->mistakes, line, "%s: %s", name, words);
}

static void take_map(const struct reading *reading, const json_t *map, struct config *config)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)map, name, value) take_value(reading, name, value, config);
}

static void take_tree(const struct reading *reading, struct config *config)
{
    const json_t *root = yaml_tree_root(reading->tree);
    unsigned line = yaml_tree_root_line(reading->tree);
    size_t index;
    json_t *item;

    if (json_is_array(root))
        config_mistakes_add(reading->mistakes, line,
                            "the file is a list; write its keys without '-'");
    else if (json_string_length(root) > 0)
        config_mistakes_add(reading->mistakes, line,
                            "the file has no keys; write \"key: value\", one a line");
    take_map(reading, root, config);
    json_array_foreach(root, index, item) take_map(reading, item, config);
}

int config_file_read(struct config *config, struct config_mistakes *mistakes, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    AUTO_YAML_TREE struct yaml_tree *tree = NULL;
    struct reading reading = {.mistakes = mistakes};
    const struct yaml_tree_options options = {
        .texts = true, .mistake = add_mistake, .context = &reading};
    int status = file_read(mistakes->path, YAML_TREE_SIZE_MAX, &text, error);

    if (status)
        return status;
    reading.text = (const char *)text.data;
    status =
        yaml_tree_parse_as(reading.text, text.size_bytes, &options, mistakes->path, &tree, error);
    if (status && mistakes->count > 0) /* @mistakes includes this error */
        return 0;
    if (status)
        return status;
    reading.tree = tree;
    take_tree(&reading, config);
    return 0;
}
