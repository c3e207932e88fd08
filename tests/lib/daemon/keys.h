/* Fixtures for tests: a mirror with the keys of a cluster. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "daemon/core/mirror.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"

#define CLUSTER "c"

/** keys_put() - put @value under @key */
void keys_put(struct mirror *mirror, const char *key, const char *value);

/** keys_remove() - remove @key */
void keys_remove(struct mirror *mirror, const char *key);

/** keys_put_tree() - put a JSON tree, taken from the caller, under @key */
void keys_put_tree(struct mirror *mirror, const char *key, json_t *tree);

/** keys_put_leaf() - put @value under the key @leaf of @job */
void keys_put_leaf(struct mirror *mirror, const char *job, const char *leaf, const char *value);

/** keys_put_registered() - put the registration of the node @name */
void keys_put_registered(struct mirror *mirror, const char *name);

/* Return 64 digits that encode @number. */
void keys_digest(uint64_t number, char ret_digest[RECORD_DIGEST_SIZE]);

/* Put a checkpoint that @node recorded; the digest of its manifest encodes the step. */
void keys_put_checkpoint(struct mirror *mirror, const char *job, uint64_t step, const char *node,
                         const char *shares);

/** keys_put_object() - put the state of a checkpoint in the object store, as @node recorded it */
void keys_put_object(struct mirror *mirror, const char *job, uint64_t step,
                     enum record_object state, const char *node, uint64_t digest);
