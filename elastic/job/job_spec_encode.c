#include "elastic/job/job_spec.h"

#include <string.h>

#include "base/json.h"
#include "elastic/job/job_schema.h"
#include "elastic/job/job_value.h"

/* Return the section object of @path's last word, created if missing; borrowed. */
static json_t *section_of(json_t *tree, const char *path)
{
    const char *last = schema_last_word(path);
    while (tree && path < last) {
        size_t length = strcspn(path, ".");
        json_t *section = json_object_getn(tree, path, length);
        if (!section && json_object_setn_new(tree, path, length, json_object()) == 0)
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
        AUTO_JSON json_t *value = job_value_encode(key, spec);
        if (value && key->omit_if_default && job_value_is_default(key, value))
            continue;
        json_t *section = section_of(tree, key->path);
        if (!value || json_object_set(section, schema_last_word(key->path), value) < 0)
            return NULL;
    }
    return json_incref(tree);
}
