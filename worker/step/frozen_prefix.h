/*
 * The frozen units at the start of a stage: for each sample of a micro-batch, load their output
 * from the node's kept outputs (worker/cache/frozen_outputs.h), or compute it.
 *
 * Outputs are kept for the first stage alone, and only if the job reads its data more than once.
 * Later stages always compute their frozen units: otherwise they would have to agree with the
 * stages below on their need for input. On a GPU outputs are kept only if the stage is the only
 * one: to write an output the host waits for the compute queue, which in a pipeline may wait for
 * another stage.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "elastic/planner/planner.h"
#include "worker/cache/frozen_outputs.h"
#include "worker/cache/frozen_weights.h"

struct engine;

/* Of a worker process, for all its engines. */
struct frozen_cache {
    struct frozen_outputs *outputs; /* NULL: nothing is kept */
    struct frozen_weights *weights;
    uint64_t timeout_ns; /* of silence after which another node is no longer asked for outputs */
};

/* Of one engine. */
struct frozen_prefix {
    struct frozen_cache *offered; /* borrowed; used from the first micro-batch on, when the state
                                     has arrived; NULL: none */
    struct frozen_cache *cache;   /* in use; NULL: outputs are neither kept nor loaded */
    uint64_t validation_count;    /* samples that an evaluation reads */
    uint64_t *places;             /* per sample of the micro-batch: its index among kept outputs */
    bool *returns;                /* per sample: a later epoch reads it again */
    char *host;                   /* one output, if device memory is not host memory */
    struct kernel_event *arrived; /* an output has arrived at the host; NULL when `host` is */
    struct frozen_outputs_counts counts; /* of the last step */
    uint64_t took_ns;                    /* loading and computing, since the step began */
    bool is_uneven; /* each replica may load or compute on its own; the same on all of them */
};

/** frozen_prefix_open() - prepare for the engine's stage, whose units may still be on their way;
 * @cache: NULL: none. -ENOMEM */
int frozen_prefix_open(struct engine *engine, struct frozen_cache *cache) CHECK_RESULT;
void frozen_prefix_close(struct engine *engine);

/** frozen_prefix_kept() - return the outputs found in the last steps, for the planner */
struct planner_kept frozen_prefix_kept(const struct engine *engine);
/** frozen_prefix_train() - announce a micro-batch with the samples from @position of the job on
 * @next_position: the position of the micro-batch after it; UINT64_MAX: none */
void frozen_prefix_train(struct engine *engine, uint64_t position, uint64_t next_position);
/** frozen_prefix_validate() - announce a micro-batch with the validation samples from @first on */
void frozen_prefix_validate(struct engine *engine, uint64_t first);
/** frozen_prefix_begin() - begin a step */
void frozen_prefix_begin(struct engine *engine);
/** frozen_prefix_want() - fetch the outputs of the next step's micro-batch with the samples from
 * @position of the job on
 */
void frozen_prefix_want(struct engine *engine, uint64_t position);
/** frozen_prefix_even_ns() - return the part of @busy_ns, the slot's time in a step, that is
 * comparable with the other replicas' slots: a node may have kept the samples of some lanes and not
 * of others. If nothing else is computed, it is the same for every slot */
uint64_t frozen_prefix_even_ns(const struct engine *engine, uint64_t busy_ns);
/** frozen_prefix_forward() - fill the frozen units' output of slot @slot; their tokens are in
 * engine->tokens */
void frozen_prefix_forward(struct engine *engine, unsigned slot);
