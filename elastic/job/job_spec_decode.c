/*
 * Decoding of a tree to a checked job_spec. Every key of the schema is read, every key of the tree
 * must be in the schema, and a rule between keys is checked when all its keys have values. All
 * problems are listed.
 */
#include "elastic/job/job_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "elastic/job/job_problems.h"
#include "elastic/job/job_rules.h"
#include "elastic/job/job_schema.h"
#include "elastic/job/job_suggest.h"
#include "elastic/job/job_value.h"

#define SUGGESTION_SIZE 512
#define KEY_PATH_SIZE   128
#define DEPTH_MAX       8

/* Return the value at a dotted path; NULL if any part is missing. */
static const json_t *find_value(const json_t *tree, const char *path)
{
    const char *word = path;
    while (tree && *word != '\0') {
        size_t length = strcspn(word, ".");
        tree = json_object_getn(tree, word, length);
        word += length + (word[length] == '.');
    }
    return tree;
}

static void decode_key(struct job_problems *problems, const struct schema_key *key,
                       const json_t *value, struct job_spec *spec)
{
    char found[JOB_FOUND_SIZE], allowed[SCHEMA_TEXT_SIZE];
    if (job_value_decode(key, value, spec))
        return;
    job_value_describe(value, found);
    schema_allowed(key, allowed);
    problems->bad[key - job_schema] = true;
    job_problem(problems, key->path, "found %s; needs %s", found, allowed);
}

static void missing_key(struct job_problems *problems, const struct schema_key *key)
{
    char allowed[SCHEMA_TEXT_SIZE];
    schema_allowed(key, allowed);
    problems->bad[key - job_schema] = true;
    job_problem(problems, key->path, "is missing; needs %s%s%s%s", allowed, key->unit ? " (" : "",
                key->unit ? key->unit : "", key->unit ? ")" : "");
}

static int decode_default(const struct schema_key *key, struct job_spec *spec)
{
    AUTO_JSON json_t *value = json_loads(key->default_json, JSON_DECODE_ANY, NULL);
    if (!value)
        return -ENOMEM;
    bool stored = job_value_decode(key, value, spec);
    assert(stored); /* a default outside its own range is a mistake in the table */
    return 0;
}

static int decode_keys(struct job_problems *problems, const json_t *tree, struct job_spec *spec)
{
    assert(job_schema_count <= JOB_KEYS_MAX);
    for (unsigned i = 0; i < job_schema_count; i++) {
        const struct schema_key *key = &job_schema[i];
        const json_t *value = find_value(tree, key->path);
        if (value)
            decode_key(problems, key, value, spec);
        else if (schema_required(key))
            missing_key(problems, key);
        else if (key->default_json && decode_default(key, spec) < 0)
            return error_set(problems->error, -ENOMEM, "no memory for a job's defaults");
    }
    for (unsigned i = 0; i < job_schema_count; i++)
        if (job_schema[i].default_from && !find_value(tree, job_schema[i].path))
            job_schema[i].default_from(spec);
    return 0;
}

static void check_unknown(struct job_problems *problems, const json_t *section, const char *prefix,
                          unsigned depth);

static void check_known(struct job_problems *problems, const char *path, const json_t *value,
                        unsigned depth)
{
    char text[SUGGESTION_SIZE], found[JOB_FOUND_SIZE];
    if (schema_find(path))
        return;
    if (!schema_has_section(path)) {
        text[0] = '\0';
        if (job_problem_is_told(problems)) /* job_suggest() searches all keys */
            job_suggest(path, text, sizeof(text));
        job_problem(problems, path, "%s", text);
    } else if (json_is_object(value)) {
        check_unknown(problems, value, path, depth + 1);
    } else if (!json_is_null(value)) { /* an empty section is null in YAML */
        job_value_describe(value, found);
        job_problem(problems, path, "found %s; needs a section with keys of its own", found);
    }
}

static void check_unknown(struct job_problems *problems, const json_t *section, const char *prefix,
                          unsigned depth)
{
    const char *word;
    json_t *value;
    assert(depth < DEPTH_MAX); /* only sections of the schema are entered */
    json_object_foreach((json_t *)section, word, value)
    {
        char path[KEY_PATH_SIZE];
        int length =
            snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix != '\0' ? "." : "", word);
        if (strchr(word, '.') || length >= (int)sizeof(path))
            job_problem(problems, path, "no such key");
        else
            check_known(problems, path, value, depth);
    }
}

int job_spec_decode(const json_t *tree, const char *where,
                    unsigned (*line_of)(void *context, const char *key_path), void *context,
                    struct job_spec *ret_spec, struct error *error)
{
    unsigned problem_count;
    return job_spec_decode_from(tree, where, line_of, context, 0, ret_spec, &problem_count, error);
}

int job_spec_decode_from(const json_t *tree, const char *where,
                         unsigned (*line_of)(void *context, const char *key_path), void *context,
                         unsigned skip, struct job_spec *ret_spec, unsigned *ret_problem_count,
                         struct error *error)
{
    *ret_problem_count = 0;
    if (!json_is_object(tree))
        return error_set(error, -EINVAL, "%s: a job is a list of \"key: value\" lines", where);
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    if (!spec)
        return error_set(error, -ENOMEM, "no memory for a job");
    struct job_problems problems = {
        .where = where, .line_of = line_of, .context = context, .error = error, .skip = skip};
    check_unknown(&problems, tree, "", 0);
    int status = decode_keys(&problems, tree, spec);
    if (status < 0)
        return status;
    job_rules_check(&problems, spec);
    status = job_problems_result(&problems);
    *ret_problem_count = problems.count;
    if (status == 0)
        *ret_spec = *spec;
    return status;
}
