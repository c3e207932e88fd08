/* The table of docs/job.md. */
#include "elastic/job/job_spec.h"

#include <string.h>

#include "base/bytes.h"
#include "elastic/job/job_schema.h"

/* Append a default as written in YAML: a text without its quotes. */
static int append_default(struct bytes *text, const struct schema_key *key)
{
    if (key->default_note)
        return bytes_append_format(text, "%s", key->default_note);
    if (!key->default_json)
        return bytes_append_format(text, "**required**");
    size_t length = strlen(key->default_json);
    bool quoted = key->default_json[0] == '"';
    return bytes_append_format(text, "`%.*s`", (int)(quoted ? length - 2 : length),
                               key->default_json + quoted);
}

static int append_row(struct bytes *text, const struct schema_key *key)
{
    char allowed[SCHEMA_TEXT_SIZE];
    schema_allowed(key, allowed);
    int status = bytes_append_format(text, "| `%s` | %s. | %s | %s | ", key->path, key->meaning,
                                     allowed, key->unit ? key->unit : "");
    if (status == 0)
        status = append_default(text, key);
    return status < 0 ? status : bytes_append_format(text, " |\n");
}

char *job_spec_schema_markdown(void)
{
    struct bytes text = {0};
    int status = bytes_append_format(&text, "| Key | Meaning | Allowed | Unit | Default |\n"
                                            "|---|---|---|---|---|\n");
    for (unsigned i = 0; status == 0 && i < job_schema_count; i++)
        status = append_row(&text, &job_schema[i]);
    if (status == 0)
        status = bytes_append(&text, "", 1);
    if (status == 0)
        return (char *)text.data;
    bytes_done(&text);
    return NULL;
}
