/*
 * Problem: a user's file may be wrong in any way, and the answer must name the line.
 *
 * Design: libyaml's events drive a recursive descent, at most YAML_TREE_DEPTH_MAX deep, that builds
 * jansson values. Beside it one flat object maps key paths to lines. Anchored values are kept by
 * name; an alias is a deep copy, paid for node by node out of the same budget as written nodes, and
 * byte by byte of its texts, so a few lines of aliases cannot become gigabytes.
 *
 * Failure modes: every refusal sets an error with a line; nothing is returned half-built. A caller
 * that asks for all mistakes gets a tree without the values that have one. libyaml cannot continue
 * after a syntax error, so the line is blanked and the text is parsed again, at most
 * YAML_TREE_BLANKED_MAX times. The other mistakes are collected anew in each pass and reported
 * after the last one.
 */
#include "base/yaml/yaml_tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/json.h"
#include "base/yaml/yaml_blank.h"
#include "base/yaml/yaml_scalar.h"

#define PATH_SIZE  512
#define WORDS_SIZE 768 /* of a mistake, which may have a path */

struct yaml_tree {
    json_t *root;
    unsigned root_line;
    json_t *lines; /* key path -> line */
};

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the one being looked at */
    bool has_event;
    const char *text, *where;
    size_t size_bytes;
    const struct yaml_tree_options *options;
    json_t *lines;
    json_t *mistakes; /* [line, words] each, if all mistakes are wanted */
    size_t bad_line;  /* of a syntax error; 0: none */
    unsigned root_line;
    json_t *anchors; /* name -> value */
    unsigned node_count;
    size_t alias_bytes;   /* of texts that aliases have copied */
    char path[PATH_SIZE]; /* of the value being read */
    struct error *error;
};

static unsigned line_here(const struct reader *reader)
{
    return (unsigned)reader->event.start_mark.line + 1;
}

/* Set the error that ends the parsing. */
static int stop(struct reader *reader, int code, size_t line, const char *words)
{
    if (reader->options->mistake)
        reader->options->mistake(reader->options->context, (unsigned)line, words);
    return error_set(reader->error, code, "%s:%zu: %s", reader->where, line, words);
}

static int refuse(struct reader *reader, int code, const char *words)
{
    return stop(reader, code, line_here(reader), words);
}

static int out_of_memory(struct reader *reader);

/* Refuse one value or key. Return: 0 if parsing continues without it. */
static int reject(struct reader *reader, const char *words)
{
    if (!reader->options->mistake)
        return refuse(reader, -EINVAL, words);
    json_t *mistake = json_pack("[is]", (int)line_here(reader), words);
    return json_array_append_new(reader->mistakes, mistake) < 0 ? out_of_memory(reader) : 0;
}

static int out_of_memory(struct reader *reader)
{
    return error_set(reader->error, -ENOMEM, "%s: out of memory", reader->where);
}

/* Return whether libyaml has searched for the end of a construct in lines beyond it. */
static bool began_earlier(const struct reader *reader)
{
    const char *context = reader->parser.context ? reader->parser.context : "";
    if (reader->options->mistake && (strcmp(context, "while parsing a flow sequence") == 0 ||
                                     strcmp(context, "while parsing a flow mapping") == 0))
        return true; /* the line that is blanked must be the one with the bracket */
    return strcmp(context, "while scanning a quoted scalar") == 0 ||
           strcmp(context, "while scanning a simple key") == 0;
}

/* Return the line of the mistake. For bytes that are not UTF-8, libyaml gives an offset instead. */
static size_t problem_line(const struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (began_earlier(reader))
        return parser->context_mark.line + 1;
    if (parser->error != YAML_READER_ERROR)
        return parser->problem_mark.line + 1;
    size_t line = 1;
    for (size_t i = 0; i < MIN(parser->problem_offset, reader->size_bytes); i++)
        line += reader->text[i] == '\n';
    return line;
}

/* Detect the most frequent cause of libyaml's "character that cannot start any token". */
static bool begins_with_tab(const struct reader *reader, size_t line)
{
    const char *at = reader->text, *end = reader->text + reader->size_bytes;

    for (; line > 1 && at < end; line--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    while (at < end && *at == ' ')
        at++;
    return at < end && *at == '\t';
}

static int next_event(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (reader->has_event)
        yaml_event_delete(&reader->event);
    reader->has_event = yaml_parser_parse(&reader->parser, &reader->event) != 0;
    if (reader->has_event)
        return 0;
    if (parser->error == YAML_MEMORY_ERROR)
        return out_of_memory(reader);
    char words[WORDS_SIZE];
    reader->bad_line = problem_line(reader);
    if (begins_with_tab(reader, reader->bad_line))
        return stop(reader, -EINVAL, reader->bad_line,
                    "the line begins with a tab; YAML is indented with spaces");
    snprintf(words, sizeof(words), "%s%s%s", parser->context ? parser->context : "",
             parser->context ? ": " : "", parser->problem ? parser->problem : "not YAML");
    return stop(reader, -EINVAL, reader->bad_line, words);
}

static int count_nodes(struct reader *reader, unsigned count)
{
    if (count > YAML_TREE_NODES_MAX - reader->node_count)
        return refuse(reader, -E2BIG, "more values than a file may have, aliases counted in full");
    reader->node_count += count;
    return 0;
}

/* Append the key to the path, which is truncated to the buffer. */
static size_t enter_key(struct reader *reader, const char *key)
{
    size_t before = strlen(reader->path);
    snprintf(reader->path + before, PATH_SIZE - before, "%s%s", before > 0 ? "." : "", key);
    return before;
}

static void leave_key(struct reader *reader, size_t before)
{
    reader->path[before] = '\0';
}

static unsigned find_line(const json_t *lines, const char *path)
{
    size_t length = strnlen(path, PATH_SIZE - 1);
    return (unsigned)json_integer_value(json_object_getn(lines, path, length));
}

static int remember_line(struct reader *reader, unsigned line)
{
    if (json_object_set_new(reader->lines, reader->path, json_integer(line)) < 0)
        return out_of_memory(reader);
    return 0;
}

static int check_tag(struct reader *reader, const yaml_char_t *tag)
{
    if (reader->options->texts || !tag || strcmp((const char *)tag, YAML_STR_TAG) == 0 ||
        strcmp((const char *)tag, "!") == 0)
        return 0;
    return reject(reader, "tags (words after \"!\") are not known here; leave it out");
}

static int read_scalar(struct reader *reader, json_t **ret_value)
{
    const char *text = (const char *)reader->event.data.scalar.value;
    size_t length = reader->event.data.scalar.length;
    bool typed = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                 !reader->event.data.scalar.tag && !reader->options->texts;
    int status = check_tag(reader, reader->event.data.scalar.tag);
    if (status < 0)
        return status;
    if (strlen(text) != length) {
        *ret_value = json_null();
        return reject(reader, "a text with a zero byte (\\0) in it");
    }
    if (!typed) {
        *ret_value = json_string(text);
        return *ret_value ? 0 : out_of_memory(reader);
    }
    status = yaml_scalar_parse(text, ret_value);
    if (status ==
        -ERANGE) { /* stays a text: the decoder of the key reports the wrong type, with the key */
        *ret_value = json_string(text);
        status = *ret_value ? 0 : -ENOMEM;
    }
    return status < 0 ? out_of_memory(reader) : 0;
}

struct extent {
    unsigned nodes;
    size_t text_bytes; /* of keys and texts */
};

static struct extent extent_of(const json_t *value)
{
    struct extent whole = {.nodes = 1, .text_bytes = json_string_length(value)}, part;
    const char *key;
    json_t *child;
    size_t index;
    json_object_foreach((json_t *)value, key, child)
    {
        part = extent_of(child);
        whole.nodes += part.nodes;
        whole.text_bytes += part.text_bytes + strlen(key);
    }
    json_array_foreach((json_t *)value, index, child)
    {
        part = extent_of(child);
        whole.nodes += part.nodes;
        whole.text_bytes += part.text_bytes;
    }
    return whole;
}

static int read_alias(struct reader *reader, json_t **ret_value)
{
    const char *name = (const char *)reader->event.data.alias.anchor;
    const json_t *value = json_object_get(reader->anchors, name);
    if (reader->options->texts || !value) {
        *ret_value = json_null();
        return reject(reader, reader->options->texts
                                  ? "aliases (*) are not known here; write the value out"
                                  : "an alias (*) of an anchor (&) that is not complete yet");
    }
    const struct extent extent = extent_of(value);
    int status = count_nodes(reader, extent.nodes);
    if (status < 0)
        return status;
    if (extent.text_bytes > YAML_TREE_SIZE_MAX - reader->alias_bytes) {
        char words[WORDS_SIZE];
        snprintf(words, sizeof(words),
                 "the alias *%.64s: aliases (*) stand for more than %u bytes; write the values out "
                 "where they are needed",
                 name, YAML_TREE_SIZE_MAX);
        return refuse(reader, -E2BIG, words);
    }
    reader->alias_bytes += extent.text_bytes;
    *ret_value = json_deep_copy(value);
    return *ret_value ? 0 : out_of_memory(reader);
}

static int read_value(struct reader *reader, unsigned depth, json_t **ret_value);

static int read_list(struct reader *reader, unsigned depth, json_t **ret_value)
{
    int status = check_tag(reader, reader->event.data.sequence_start.tag);
    if (status < 0)
        return status;
    AUTO_JSON json_t *list = json_array();
    if (!list)
        return out_of_memory(reader);
    while ((status = next_event(reader)) == 0 && reader->event.type != YAML_SEQUENCE_END_EVENT) {
        json_t *element = NULL;
        status = read_value(reader, depth + 1, &element);
        if (status < 0)
            return status;
        if (json_array_append_new(list, element) < 0)
            return out_of_memory(reader);
    }
    if (status == 0)
        *ret_value = json_incref(list);
    return status;
}

/* Return the mistake of the current key, or NULL. */
static const char *key_mistake(const struct reader *reader)
{
    if (reader->event.type != YAML_SCALAR_EVENT)
        return "a key must be a word";
    const char *key = (const char *)reader->event.data.scalar.value;
    if (strlen(key) != reader->event.data.scalar.length)
        return "a key with a zero byte (\\0) in it";
    if (strcmp(key, "<<") == 0)
        return "merge keys (<<) are not known here; write the keys out";
    return NULL;
}

/* Report the line that has the key of the path already. */
static int reject_repeated(struct reader *reader)
{
    char words[WORDS_SIZE];
    snprintf(words, sizeof(words), "%s stands here a second time, first on line %u", reader->path,
             find_line(reader->lines, reader->path));
    return reject(reader, words);
}

static int skip_value(struct reader *reader, unsigned depth)
{
    json_t *value = NULL;
    int status = next_event(reader);
    if (status == 0)
        status = read_value(reader, depth, &value);
    json_decref(value);
    return status;
}

/* Skip a key that is not allowed here, with its value. */
static int skip_entry(struct reader *reader, unsigned depth, const char *mistake)
{
    json_t *key = NULL;
    int status = reject(reader, mistake);
    bool ends_here =
        reader->event.type == YAML_ALIAS_EVENT || reader->event.type == YAML_SCALAR_EVENT;
    if (status == 0 && !ends_here)
        status = read_value(reader, depth, &key);
    json_decref(key);
    return status == 0 ? skip_value(reader, depth) : status;
}

static int read_entry(struct reader *reader, unsigned depth, json_t *map)
{
    json_t *value = NULL;
    const char *mistake = key_mistake(reader);
    if (mistake)
        return skip_entry(reader, depth + 1, mistake);
    /* copied because the value's events replace it */
    AUTO_FREE char *key = strdup((const char *)reader->event.data.scalar.value);
    if (!key)
        return out_of_memory(reader);
    size_t before = enter_key(reader, key);
    bool repeated = json_object_get(map, key);
    int status = repeated ? reject_repeated(reader) : remember_line(reader, line_here(reader));
    if (status == 0)
        status = next_event(reader);
    if (status == 0)
        status = read_value(reader, depth + 1, &value);
    leave_key(reader, before);
    if (status == 0 && !repeated && json_object_set(map, key, value) < 0)
        status = out_of_memory(reader);
    json_decref(value);
    return status;
}

static int read_map(struct reader *reader, unsigned depth, json_t **ret_value)
{
    int status = check_tag(reader, reader->event.data.mapping_start.tag);
    if (status < 0)
        return status;
    AUTO_JSON json_t *map = json_object();
    if (!map)
        return out_of_memory(reader);
    while ((status = next_event(reader)) == 0 && reader->event.type != YAML_MAPPING_END_EVENT) {
        status = read_entry(reader, depth, map);
        if (status < 0)
            return status;
    }
    if (status == 0)
        *ret_value = json_incref(map);
    return status;
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

static int read_unanchored(struct reader *reader, unsigned depth, json_t **ret_value)
{
    switch (reader->event.type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(reader, ret_value);
    case YAML_SEQUENCE_START_EVENT:
        return read_list(reader, depth, ret_value);
    case YAML_MAPPING_START_EVENT:
        return read_map(reader, depth, ret_value);
    case YAML_ALIAS_EVENT:
        return read_alias(reader, ret_value);
    default:
        return refuse(reader, -EINVAL, "something that is neither a value, a list nor a section");
    }
}

/* Read the events of one value, from the current event to its last one. */
static int read_value(struct reader *reader, unsigned depth, json_t **ret_value)
{
    AUTO_JSON json_t *value = NULL;
    AUTO_FREE char *anchor = NULL;
    if (depth > YAML_TREE_DEPTH_MAX)
        return refuse(reader, -E2BIG, "nested too deep");
    int status = count_nodes(reader, 1);
    if (status < 0)
        return status;
    if (anchor_of(&reader->event) && !reader->options->texts) {
        anchor = strdup((const char *)anchor_of(&reader->event));
        if (!anchor)
            return out_of_memory(reader);
    }
    status = read_unanchored(reader, depth, &value);
    if (status < 0)
        return status;
    if (anchor && json_object_set(reader->anchors, anchor, value) < 0)
        return out_of_memory(reader);
    *ret_value = json_incref(value);
    return 0;
}

/* Read a stream: its start, one document or none, its end. */
static int read_stream(struct reader *reader, json_t **ret_root)
{
    AUTO_JSON json_t *root = json_null();
    int status = next_event(reader); /* the stream's start */
    if (status == 0)
        status = next_event(reader);
    if (status == 0 && reader->event.type == YAML_DOCUMENT_START_EVENT) {
        json_t *value = NULL;
        status = next_event(reader);
        reader->root_line = line_here(reader);
        if (status == 0)
            status = read_value(reader, 0, &value);
        if (status == 0)
            root = value;
        if (status == 0)
            status = next_event(reader); /* the document's end */
        if (status == 0)
            status = next_event(reader);
    }
    if (status == 0 && reader->event.type != YAML_STREAM_END_EVENT && !reader->options->texts)
        status = refuse(reader, -EINVAL, "a second document (\"---\") begins here; one is allowed");
    if (status == 0)
        *ret_root = json_incref(root);
    return status;
}

static int read_once(struct reader *reader, json_t **ret_root)
{
    json_object_clear(reader->lines);
    json_object_clear(reader->anchors);
    json_array_clear(reader->mistakes);
    reader->node_count = 0;
    reader->alias_bytes = 0;
    reader->path[0] = '\0';
    reader->bad_line = 0;
    reader->has_event = false;
    if (yaml_parser_initialize(&reader->parser) == 0)
        return out_of_memory(reader);
    if (!reader->options->texts)
        yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    const char *text = reader->text ? reader->text : ""; /* libyaml asserts one */
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)text, reader->size_bytes);
    int status = read_stream(reader, ret_root);
    if (reader->has_event)
        yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    return status;
}

static bool is_utf16(const struct reader *reader)
{
    return reader->size_bytes >= 2 &&
           (memcmp(reader->text, "\xff\xfe", 2) == 0 || memcmp(reader->text, "\xfe\xff", 2) == 0);
}

/* Parse again without the lines that are not YAML. */
static int read_on(struct reader *reader, json_t **ret_root)
{
    int status = -EINVAL;
    AUTO_FREE char *copy = malloc(reader->size_bytes + 1);
    if (!copy)
        return out_of_memory(reader);
    memcpy(copy, reader->text, reader->size_bytes);
    reader->text = copy;
    for (unsigned i = 0; i < YAML_TREE_BLANKED_MAX && status == -EINVAL && reader->bad_line > 0 &&
                         yaml_blank_line(copy, reader->size_bytes, reader->bad_line);
         i++)
        status = read_once(reader, ret_root);
    reader->text = NULL;
    return status;
}

static int read_all(struct reader *reader, json_t **ret_root)
{
    const struct yaml_tree_options *options = reader->options;
    size_t index;
    json_t *mistake;
    int status = read_once(reader, ret_root);
    if (status == -EINVAL && options->mistake && reader->bad_line > 0 && !is_utf16(reader))
        status = read_on(reader, ret_root);
    if (!options->mistake)
        return status;
    json_array_foreach(reader->mistakes, index, mistake)
        options->mistake(options->context, (unsigned)json_integer_value(json_array_get(mistake, 0)),
                         json_string_value(json_array_get(mistake, 1)));
    return status;
}

int yaml_tree_parse(const char *text, size_t size_bytes, const char *where,
                    struct yaml_tree **ret_tree, struct error *error)
{
    static const struct yaml_tree_options typed = {.texts = false};
    return yaml_tree_parse_as(text, size_bytes, &typed, where, ret_tree, error);
}

int yaml_tree_parse_as(const char *text, size_t size_bytes, const struct yaml_tree_options *options,
                       const char *where, struct yaml_tree **ret_tree, struct error *error)
{
    if (size_bytes > YAML_TREE_SIZE_MAX)
        return error_set(error, -E2BIG, "%s: %zu bytes; at most %u are read", where, size_bytes,
                         YAML_TREE_SIZE_MAX);
    if (size_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        size_bytes -= 3;
    }
    AUTO_JSON json_t *anchors = json_object();
    AUTO_JSON json_t *lines = json_object();
    AUTO_JSON json_t *mistakes = json_array();
    AUTO_JSON json_t *root = NULL;
    AUTO_FREE struct yaml_tree *tree = calloc(1, sizeof(*tree));
    struct reader reader = {.text = text,
                            .size_bytes = size_bytes,
                            .where = where,
                            .options = options,
                            .lines = lines,
                            .mistakes = mistakes,
                            .anchors = anchors,
                            .error = error};
    if (!anchors || !lines || !mistakes || !tree)
        return out_of_memory(&reader);
    int status = read_all(&reader, &root);
    if (status < 0)
        return status;
    tree->root = json_incref(root);
    tree->root_line = reader.root_line;
    tree->lines = json_incref(lines);
    *ret_tree = tree;
    tree = NULL;
    return 0;
}

void yaml_tree_free(struct yaml_tree *tree)
{
    if (!tree)
        return;
    json_decref(tree->root);
    json_decref(tree->lines);
    free(tree);
}

json_t *yaml_tree_root(const struct yaml_tree *tree)
{
    return tree->root;
}

unsigned yaml_tree_root_line(const struct yaml_tree *tree)
{
    return tree->root_line;
}

unsigned yaml_tree_line(void *tree, const char *key_path)
{
    const struct yaml_tree *self = tree;
    return find_line(self->lines, key_path);
}
