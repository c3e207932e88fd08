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

#define JOB_PATHS_MAX   32
#define JOB_PATH_SIZE   1024
#define JOB_WORD_SIZE   16
#define JOB_LANES_MAX   1024
#define JOB_DEVICES_MAX 4096

enum job_schedule { JOB_SCHEDULE_CONSTANT, JOB_SCHEDULE_COSINE, JOB_SCHEDULE_LINEAR };
enum job_freeze { JOB_FREEZE_NONE, JOB_FREEZE_GRADIENT, JOB_FREEZE_SCHEDULE };
enum job_format { JOB_FORMAT_BYTES, JOB_FORMAT_LLMC, JOB_FORMAT_UINT16, JOB_FORMAT_UINT32 };
enum job_precision { JOB_PRECISION_BF16, JOB_PRECISION_TF32, JOB_PRECISION_F32 };
#define JOB_PRECISIONS 3
enum job_rope { JOB_ROPE_PLAIN, JOB_ROPE_LINEAR, JOB_ROPE_LLAMA3 }; /* model.rope_scaling.type */
/* Action on a step whose loss or gradient is not finite (step_record_finite()). */
enum job_nan { JOB_NAN_STOP, JOB_NAN_SKIP };

/* In YAML one text or a list; absolute after submission. */
struct job_paths {
    char paths[JOB_PATHS_MAX][JOB_PATH_SIZE];
    unsigned count;
};

/* Values of evaluate.batches. ALL: all of the validation data. AUTO: chosen from the size of that
 * data and the steps between two evaluations (worker/step/job_dataset.h). */
#define JOB_BATCHES_ALL  UINT32_MAX
#define JOB_BATCHES_AUTO 0u

struct job_spec {
    char name[NAME_SIZE];
    struct {
        char family[JOB_WORD_SIZE]; /* "gpt2", "llama" */
        unsigned layers, width, heads, context, vocab;
        bool tied;
        unsigned kv_heads, head_width, hidden; /* with gpt2 these follow from the others */
        bool qkv_bias, qk_norm;
        double rope_theta, norm_epsilon;
        struct {
            enum job_rope type;
            double factor, low_frequency_factor, high_frequency_factor;
            unsigned original_context;
        } rope_scaling;
        char from[JOB_PATH_SIZE]; /* folder with the first parameters; empty: from the seed */
    } model;
    struct {
        enum job_format format;
        struct job_paths path;
        struct job_paths mask;               /* tokens that count in the loss; none: all */
        double validation_share;             /* YAML `validation`: a share ... */
        char validation_path[JOB_PATH_SIZE]; /* ... or a path; empty when a share */
        char validation_mask[JOB_PATH_SIZE]; /* of that path's tokens; empty: all count */
    } data;
    struct {
        uint64_t steps;
        unsigned lanes, micro_batch, micro_batches_per_lane;
        uint64_t seed;
        enum job_precision precision; /* of GPUs; CPU slots compute in f32 */
        enum job_nan on_nan;
        struct {
            char name[JOB_WORD_SIZE]; /* "adamw" */
            double lr, beta1, beta2, epsilon, weight_decay;
            uint64_t warmup; /* steps */
            enum job_schedule schedule;
            double min_lr_factor; /* of lr, at the last step of `cosine` and `linear` */
            double clip;          /* global gradient norm; 0: no clipping */
        } optimizer;
    } train;
    struct {
        unsigned devices_min, devices_max;
        bool mixed_devices; /* unlike devices may share the job: its bits depend on the device */
        bool shadow;        /* a stage with all replicas on one node has a copy on another */
        struct {
            double factor;  /* slowdown relative to the peers; 0: no eviction */
            unsigned steps; /* steps over which the slowdown must last */
        } evict_stragglers;
        struct {
            enum job_freeze policy;
            double alpha;
            uint64_t every;       /* steps between decisions */
            unsigned keep_active; /* layers that never freeze */
        } freeze;
    } elastic;
    struct {
        char path[JOB_PATH_SIZE]; /* empty: <node's data folder>/checkpoints */
        uint64_t every;           /* steps; 0: only at the end, on pause and on drain */
        unsigned keep, copies;
        char object_bucket[NAME_SIZE]; /* in the cluster's object store; empty: no upload */
        unsigned object_keep;
    } checkpoint;
    struct {
        uint64_t every; /* steps; 0: never */
        unsigned
            batches; /* micro-batches of validation data each time, or one of JOB_BATCHES_... */
    } evaluate;
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
 * job_spec_decode_from() - do the same, with @error about the next JOB_PROBLEMS_SHOWN problems
 * after the first @skip
 * @ret_problem_count: the number of all problems
 */
int job_spec_decode_from(const json_t *tree, const char *where,
                         unsigned (*line_of)(void *context, const char *key_path), void *context,
                         unsigned skip, struct job_spec *ret_spec, unsigned *ret_problem_count,
                         struct error *error) CHECK_RESULT;

/**
 * job_spec_encode() - encode the spec as JSON with all keys except young ones at their defaults
 * (elastic/job/job_schema.h); new reference, NULL when out of memory
 */
json_t *job_spec_encode(const struct job_spec *spec);

/**
 * job_spec_schema_markdown() - make the table of docs/job.md; malloc'ed, NULL when out of memory
 */
char *job_spec_schema_markdown(void);

/**
 * job_spec_learning_rate() - return the learning rate of @step (from 1), the same bits on every
 * machine
 *
 * The rate rises linearly to lr at step `warmup`. Then it is constant, or falls to lr x
 * min_lr_factor at the last step.
 */
double job_spec_learning_rate(const struct job_spec *spec, uint64_t step);

/** job_spec_tokens_per_step() - return lanes x micro_batches_per_lane x micro_batch x context */
uint64_t job_spec_tokens_per_step(const struct job_spec *spec);

/**
 * job_spec_checkpoint_due() - return whether a checkpoint is due at the boundary after @step; false
 * after the last step, whose checkpoint all ranks write together (final_checkpoint)
 */
bool job_spec_checkpoint_due(const struct job_spec *spec, uint64_t step);

/** job_spec_is_llama() - return whether the family is llama; otherwise it is gpt2 */
bool job_spec_is_llama(const struct job_spec *spec);

/** job_spec_unit_count() - return the number of units of the model: 2 * layers + 2 */
unsigned job_spec_unit_count(const struct job_spec *spec);
