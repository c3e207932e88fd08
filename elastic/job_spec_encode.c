#include "elastic/job_spec.h"

#include <string.h>

#include "base/json.h"
#include "elastic/job_schema.h"
#include "elastic/job_value.h"

/* The section object that @path's last word belongs in, made where it is missing; borrowed. */
static json_t *section_of(json_t *tree, const char *path)
{
    const char *last = schema_last_word(path);
    while (tree != NULL && path < last) {
        size_t length = strcspn(path, ".");
        json_t *section = json_object_getn(tree, path, length);
        if (section == NULL && json_object_setn_new(tree, path, length, json_object()) == 0)
            section = json_object_getn(tree, path, length);
        tree = section;
        path += length + 1;
    }
    return tree;
}

json_t *job_spec_encode(const struct job_spec *spec)
{
    AUTO_JSON json_t *tree = json_object();
    for (unsigned i = 0; i < job_schema_count; i++) {
        const struct schema_key *key = &job_schema[i];
        json_t *section = section_of(tree, key->path);
        if (json_object_set_new(section, schema_last_word(key->path), job_value_encode(key, spec)) <
            0)
            return NULL;
    }
    return json_incref(tree);
}
