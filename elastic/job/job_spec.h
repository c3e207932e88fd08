/*
 * The job file as a checked structure.
 *
 * One table (job_schema) names every key with its type, unit, default, range and meaning; it
 * checks job files and specs read from etcd, and docs/job.md is generated from it. The spec is
 * stored in etcd as JSON with the same keys. After submission only elastic.devices may change.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "elastic/job/job_checkpoints.h"
#include "elastic/job/job_data.h"
#include "elastic/job/job_elasticity.h"
#include "elastic/job/job_evaluation.h"
#include "elastic/job/job_model.h"
#include "elastic/job/job_training.h"

struct job_spec {
    char name[NAME_SIZE];
    struct job_model model;
    struct job_data data;
    struct job_training train;
    struct job_elasticity elastic;
    struct job_checkpoints checkpoint;
    struct job_evaluation evaluate;
};

/**
 * job_spec_decode() - check a tree against the schema and fill the structure
 * @where: "demo.yaml", for messages; @line_of: NULL, or the line of a key path ("train.lanes") for
 *   messages, 0 when unknown
 *
 * Unknown key (with the nearest known one), missing key, wrong type, out of range, and broken rules
 * between keys (width % heads, min <= max, warmup <= steps, ...) give -EINVAL. @error has one line
 * for each of the first JOB_PROBLEMS_SHOWN problems with file, line, key, the value found and the
 * values allowed. -ENOMEM. *ret_spec is written only on success.
 */
int job_spec_decode(const json_t *tree, const char *where,
                    unsigned (*line_of)(void *context, const char *key_path), void *context,
                    struct job_spec *ret_spec, struct error *error) CHECK_RESULT;
/**
 * job_spec_decode_from() - as job_spec_decode(), with @error about the next JOB_PROBLEMS_SHOWN
 * problems after the first @skip
 * @ret_problem_count: the number of all problems
 */
int job_spec_decode_from(const json_t *tree, const char *where,
                         unsigned (*line_of)(void *context, const char *key_path), void *context,
                         unsigned skip, struct job_spec *ret_spec, unsigned *ret_problem_count,
                         struct error *error) CHECK_RESULT;

/**
 * job_spec_encode() - encode the spec as JSON with all keys except those with omit_if_default at
 * their defaults (elastic/job/job_schema.h); new reference, NULL when out of memory
 */
json_t *job_spec_encode(const struct job_spec *spec);

/**
 * job_spec_schema_markdown() - make the table of docs/job.md; malloc'ed, NULL when out of memory
 */
char *job_spec_schema_markdown(void);

/** job_spec_tokens_per_step() - return lanes x micro_batches_per_lane x micro_batch x context */
uint64_t job_spec_tokens_per_step(const struct job_model *model,
                                  const struct job_training *training);

/**
 * job_keeps_copies() - return whether every node has a folder of its own for its share of a
 * checkpoint and for copies of others; otherwise all nodes share one folder (copies 1)
 */
bool job_keeps_copies(const struct job_spec *spec);
