#include "lib/daemon/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/json.h"

void keys_put(struct mirror *mirror, const char *key, const char *value)
{
    const struct kv_event event = {.entry = {.key = key,
                                             .value = value,
                                             .value_bytes = strlen(value),
                                             .create_revision = mirror->revision + 1,
                                             .mod_revision = mirror->revision + 1}};
    assert_int_equal(mirror_apply(mirror, &event, mirror->revision + 1), 0);
}

void keys_remove(struct mirror *mirror, const char *key)
{
    const struct kv_event event = {.deleted = true, .entry = {.key = key}};
    assert_int_equal(mirror_apply(mirror, &event, mirror->revision + 1), 0);
}

void keys_put_tree(struct mirror *mirror, const char *key, json_t *tree)
{
    AUTO_FREE char *text = json_text(tree);
    assert_non_null(text);
    keys_put(mirror, key, text);
    json_decref(tree);
}

void keys_put_leaf(struct mirror *mirror, const char *job, const char *leaf, const char *value)
{
    char key[KV_KEY_MAX];
    keys_put(mirror, keys_job(key, CLUSTER, job, leaf), value);
}

void keys_put_registered(struct mirror *mirror, const char *name)
{
    struct node_record record = {.link_port = 7600, .incarnation = 77};
    char key[KV_KEY_MAX];

    snprintf(record.host, sizeof(record.host), "10.0.0.1");
    keys_put_tree(mirror, keys_node(key, CLUSTER, name), node_record_encode(&record));
}

void keys_digest(uint64_t number, char ret_digest[RECORD_DIGEST_SIZE])
{
    snprintf(ret_digest, RECORD_DIGEST_SIZE, "%064llu", (unsigned long long)number);
}

void keys_put_checkpoint(struct mirror *mirror, const char *job, uint64_t step, const char *node,
                         const char *shares)
{
    struct checkpoint_record record = {
        .step = step, .generation = 1, .shares = shares[0] ? strdup(shares) : NULL};
    char key[KV_KEY_MAX];

    snprintf(record.path, sizeof(record.path), "/ck/%s/%llu", job, (unsigned long long)step);
    keys_digest(step, record.manifest_sha256);
    snprintf(record.node, sizeof(record.node), "%s", node);
    keys_put_tree(mirror, keys_checkpoint(key, CLUSTER, job, step),
                  checkpoint_record_encode(&record));
    checkpoint_record_done(&record);
}

void keys_put_object(struct mirror *mirror, const char *job, uint64_t step,
                     enum record_object state, const char *node, uint64_t digest)
{
    struct object_record record = {.step = step, .state = state};
    char key[KV_KEY_MAX];

    keys_digest(digest, record.manifest_sha256);
    snprintf(record.place, sizeof(record.place), "s3://bucket/%llu", (unsigned long long)step);
    snprintf(record.node, sizeof(record.node), "%s", node);
    keys_put_tree(mirror, keys_object(key, CLUSTER, job, step), object_record_encode(&record));
}
