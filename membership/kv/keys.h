/* The names of firn's keys: /firn/v1/<cluster>/... */
#pragma once

#include <stdint.h>

#include "membership/kv/kv.h"

/* Each function writes the key into a buffer of KV_KEY_MAX bytes and returns the buffer. */
char *keys_cluster(char key[KV_KEY_MAX], const char *cluster); /* prefix, with the trailing slash */
char *keys_node(char key[KV_KEY_MAX], const char *cluster, const char *node);
char *keys_leader(char key[KV_KEY_MAX], const char *cluster);
/** keys_excused() - name the key that is written when an operator clears the fault that took slots
 * of @node out of service */
char *keys_excused(char key[KV_KEY_MAX], const char *cluster, const char *node);
/** keys_nodes() - name the first of the keys that only a leader watches: nodes/ and said/ sort
 * behind it, the keys that every firnd watches (drains/, excused/, jobs/, leader) before it */
char *keys_nodes(char key[KV_KEY_MAX], const char *cluster);
/** keys_jobs() - name the prefix of the keys of all jobs */
char *keys_jobs(char key[KV_KEY_MAX], const char *cluster);
char *keys_job(char key[KV_KEY_MAX], const char *cluster, const char *job,
               const char *leaf); /* spec, desired, generation, next, checkpoints/... */
/** keys_said() - name a key with a report of a node or of the leader about a job: progress, state,
 * reports/<generation>/<node> */
char *keys_said(char key[KV_KEY_MAX], const char *cluster, const char *job, const char *leaf);
char *keys_report(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t generation,
                  const char *node);
char *keys_checkpoint(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step);
/** keys_object() - name the key of a checkpoint in the object store: jobs/<job>/objects/<step> */
char *keys_object(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step);
/** keys_match_job() - return whether @key is "<cluster>/jobs/<job>/<leaf>", and copy its parts into
 * the buffers; used to route watch events. keys_match_said(): "<cluster>/said/<job>/<leaf>" */
bool keys_match_job(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128]);
bool keys_match_said(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128]);
bool keys_match_node(const char *key, const char *cluster, char ret_node[64]);
