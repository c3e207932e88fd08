/* The names of firn's keys: /firn/v1/<cluster>/... */
#pragma once

#include <stdint.h>

#include "membership/kv/kv.h"

/* Each writes the key into a buffer of KV_KEY_MAX bytes and returns it. */
char *keys_cluster(char key[KV_KEY_MAX],
                   const char *cluster); /* prefix, with the slash at its end */
char *keys_node(char key[KV_KEY_MAX], const char *cluster, const char *node);
char *keys_leader(char key[KV_KEY_MAX], const char *cluster);
/** keys_excused() - written when an operator says that what took slots of @node out of service is
 * over */
char *keys_excused(char key[KV_KEY_MAX], const char *cluster, const char *node);
/** keys_nodes() - where the keys begin that only a leader follows: nodes/ and said/ sort behind it,
 * what every firnd follows (drains/, excused/, jobs/, leader) before it */
char *keys_nodes(char key[KV_KEY_MAX], const char *cluster);
/** keys_jobs() - where the keys of all jobs begin */
char *keys_jobs(char key[KV_KEY_MAX], const char *cluster);
char *keys_job(char key[KV_KEY_MAX], const char *cluster, const char *job,
               const char *leaf); /* spec, desired, generation, next, checkpoints/... */
/** keys_said() - what nodes and their leader say of a job: progress, state,
 * reports/<generation>/<node> */
char *keys_said(char key[KV_KEY_MAX], const char *cluster, const char *job, const char *leaf);
char *keys_report(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t generation,
                  const char *node);
char *keys_checkpoint(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step);
/** keys_object() - of a checkpoint in the object store: jobs/<job>/objects/<step> */
char *keys_object(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step);
/** keys_match_job() - does @key lie at "<cluster>/jobs/<job>/<leaf>"? parts into the buffers; used
 * to route watch events. keys_match_said(): at "<cluster>/said/<job>/<leaf>" */
bool keys_match_job(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128]);
bool keys_match_said(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128]);
bool keys_match_node(const char *key, const char *cluster, char ret_node[64]);
