#include "checkpoint/read/source_text.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "checkpoint/remote/remote_state.h"

#define NODES_MAX      4096
#define TIMEOUT_MS_MAX 600000

static json_t *encode_nodes(const struct checkpoint_remote *remote)
{
    json_t *nodes = json_array();
    for (unsigned i = 0; nodes && i < remote->node_count; i++) {
        const struct checkpoint_remote_node *node = &remote->nodes[i];
        if (json_array_append_new(
                nodes, json_pack("{s:s, s:s}", "name", node->name, "http", node->http)) != 0) {
            json_decref(nodes);
            return NULL;
        }
    }
    return nodes;
}

int source_text_encode(const struct checkpoint_remote *remote, const char *manifest_sha256,
                       struct bytes *into)
{
    char key[2 * CHECKPOINT_KEY_SIZE + 1];
    sodium_bin2hex(key, sizeof(key), remote->key, sizeof(remote->key));
    AUTO_JSON json_t *tree =
        json_pack("{s:s, s:s, s:s, s:I, s:o}", "job", remote->job, "manifest_sha256",
                  manifest_sha256, "key", key, "timeout_ms",
                  (json_int_t)(remote->timeout_ns / NS_PER_MS), "nodes", encode_nodes(remote));
    sodium_memzero(key, sizeof(key));
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    return text ? bytes_append(into, text, strlen(text)) : -ENOMEM;
}

static int decode_key(const json_t *tree, uint8_t ret_key[CHECKPOINT_KEY_SIZE], struct error *error)
{
    char text[2 * CHECKPOINT_KEY_SIZE + 1];
    size_t size = 0;
    int status = json_get_text(tree, "key", text, sizeof(text), error);
    if (status == 0 &&
        (sodium_hex2bin(ret_key, CHECKPOINT_KEY_SIZE, text, strlen(text), NULL, &size, NULL) != 0 ||
         size != CHECKPOINT_KEY_SIZE))
        status = error_set(error, -EINVAL, "\"key\" is not %d hexadecimal digits",
                           2 * CHECKPOINT_KEY_SIZE);
    return status;
}

static int decode_nodes(const json_t *array, struct checkpoint_remote_node *nodes,
                        struct error *error)
{
    const json_t *item;
    size_t i;
    int status = 0;
    json_array_foreach(array, i, item)
    {
        if (status == 0)
            status = json_get_text(item, "name", nodes[i].name, sizeof(nodes[i].name), error);
        if (status == 0)
            status = json_get_text(item, "http", nodes[i].http, sizeof(nodes[i].http), error);
    }
    return status;
}

static int decode(const json_t *tree, struct checkpoint_remote **ret_remote, char ret_sha256[65],
                  struct error *error)
{
    char job[NAME_SIZE];
    struct checkpoint_remote_options options = {.job = job};
    uint64_t timeout_ms;
    json_t *array;
    int status = json_get_text(tree, "job", job, sizeof(job), error);
    if (status == 0)
        status = json_get_text(tree, "manifest_sha256", ret_sha256, 65, error);
    if (status == 0)
        status = json_get_u64(tree, "timeout_ms", TIMEOUT_MS_MAX, &timeout_ms, error);
    if (status == 0)
        status = json_get_array(tree, "nodes", NODES_MAX, &array, error);
    if (status == 0)
        status = decode_key(tree, options.key, error);
    if (status != 0)
        return status;
    options.timeout_ns = timeout_ms * NS_PER_MS;
    options.node_count = (unsigned)json_array_size(array);
    AUTO_FREE struct checkpoint_remote_node *nodes =
        calloc((size_t)options.node_count + 1, sizeof(*nodes));
    options.nodes = nodes;
    status = nodes ? decode_nodes(array, nodes, error)
                   : error_set(error, -ENOMEM, "no memory to reach other nodes");
    return status == 0 ? checkpoint_remote_new(&options, ret_remote, error) : status;
}

int source_text_decode(const char *text, size_t size_bytes, struct checkpoint_remote **ret_remote,
                       char ret_sha256[65], struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    int status = json_parse(text, size_bytes, "the place of a checkpoint", &tree, error);
    return status == 0 ? decode(tree, ret_remote, ret_sha256, error) : status;
}
