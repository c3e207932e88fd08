#include "daemon/jobs/neighbours_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)

static void path_of(const struct config *config, char ret_path[CONFIG_TEXT_SIZE])
{
    snprintf(ret_path, CONFIG_TEXT_SIZE, "%.*s/neighbours.json", CONFIG_TEXT_SIZE - 32,
             config->run_dir);
}

static json_t *encode(const struct neighbour *list, unsigned count)
{
    AUTO_JSON json_t *array = json_array();

    for (unsigned i = 0; array && i < count; i++)
        if (json_array_append_new(array,
                                  json_pack("{ss ss}", "name", list[i].name, "http", list[i].http)))
            return NULL;
    return json_pack("{sO}", "neighbours", array);
}

void neighbours_save(const struct config *config, const struct neighbour *list, unsigned count)
{
    AUTO_JSON json_t *tree = encode(list, count);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    char path[CONFIG_TEXT_SIZE];
    struct error error = {0};

    path_of(config, path);
    if (!text)
        log_error("no memory to remember the other nodes");
    else if (file_replace(path, text, strlen(text), 0644, &error))
        log_warning("the other nodes are not remembered for the next firnd: %s", error.text);
}

unsigned neighbours_load(const struct config *config, struct neighbour ret_list[NEIGHBOURS_MAX])
{
    struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    json_t *array = NULL;
    char path[CONFIG_TEXT_SIZE];
    unsigned count = 0;

    path_of(config, path);
    if (!file_read(path, FILE_BYTES_MAX, &text, NULL) &&
        !json_parse((const char *)text.data, text.size_bytes, path, &tree, NULL) &&
        !json_get_array(tree, "neighbours", NEIGHBOURS_MAX, &array, NULL))
        for (size_t i = 0; i < json_array_size(array); i++) {
            const json_t *entry = json_array_get(array, i);
            struct neighbour *into = &ret_list[count];
            count += !json_get_text(entry, "name", into->name, sizeof(into->name), NULL) &&
                     !json_get_text(entry, "http", into->http, sizeof(into->http), NULL);
        }
    bytes_done(&text);
    return count;
}
