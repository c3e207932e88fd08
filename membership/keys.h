/* The names of firn's keys: /firn/v1/<cluster>/... (DESIGN 5). */
#pragma once

#include <stdint.h>

#include "membership/kv.h"

/* Each writes the key into a buffer of KV_KEY_MAX bytes and returns it. */
char *keys_cluster(char key[KV_KEY_MAX],
                   const char *cluster); /* prefix, with the slash at its end */
char *keys_node(char key[KV_KEY_MAX], const char *cluster, const char *node);
char *keys_leader(char key[KV_KEY_MAX], const char *cluster);
char *keys_job(char key[KV_KEY_MAX], const char *cluster, const char *job,
               const char *leaf); /* spec, desired, generation, next, progress */
char *keys_report(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t generation,
                  const char *node);
char *keys_checkpoint(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step);
/** keys_object() - of a checkpoint in the object store: jobs/<job>/objects/<step> */
char *keys_object(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step);
/** keys_match() - does @key lie at "<cluster>/jobs/<job>/<leaf>"? parts into the buffers; used to
 * route watch events */
bool keys_match_job(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128]);
bool keys_match_node(const char *key, const char *cluster, char ret_node[64]);
