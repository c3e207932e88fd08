/*
 * The frozen units at the begin of a stage: for each sample of a micro-batch their output is taken
 * from the node's kept outputs (worker/cache/frozen_outputs.h), or computed.
 *
 * Outputs are kept for the first stage alone, and only where the job goes over its data more than
 * once. A stage behind the first one computes its frozen units always: whether it needs them would
 * have to be agreed with the stages below. On a GPU outputs are kept where the stage is the only
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
    uint64_t timeout_ns; /* of silence before another node is not asked for outputs */
};

/* Of one engine. */
struct frozen_prefix {
    struct frozen_cache *offered; /* borrowed; used from the first micro-batch on, when the state is
                                     there; NULL: none */
    struct frozen_cache *cache;   /* in use; NULL: outputs are neither kept nor loaded */
    uint64_t validation_count;    /* samples that an evaluation reads */
    uint64_t *places;             /* per sample of the micro-batch: its index among kept outputs */
    bool *returns;                /* per sample: it comes again */
    char *host;                   /* one output, where the device's memory is not the host's */
    struct kernel_event *arrived; /* an output has come to the host; NULL: as host */
    struct frozen_outputs_counts counts; /* of the last step */
    uint64_t took_ns;                    /* loading and computing, since the step began */
    bool is_uneven; /* replicas may load or compute, each for itself; the same on all of them */
};

/** frozen_prefix_open() - prepare for the engine's stage, whose units may still be on their way;
 * @cache NULL: without. -ENOMEM */
int frozen_prefix_open(struct engine *engine, struct frozen_cache *cache) CHECK_RESULT;
void frozen_prefix_close(struct engine *engine);

/** frozen_prefix_kept() - return which outputs the last steps have met here, for the planner */
struct planner_kept frozen_prefix_kept(const struct engine *engine);
/** frozen_prefix_train() - the next micro-batch has the samples at @position of the job and behind
 * @next_position: of the micro-batch after it; UINT64_MAX: none */
void frozen_prefix_train(struct engine *engine, uint64_t position, uint64_t next_position);
/** frozen_prefix_validate() - the next micro-batch has validation samples from @first on */
void frozen_prefix_validate(struct engine *engine, uint64_t first);
/** frozen_prefix_begin() - a step begins */
void frozen_prefix_begin(struct engine *engine);
/** frozen_prefix_want() - the next step has a micro-batch with the samples at @position of the job
 */
void frozen_prefix_want(struct engine *engine, uint64_t position);
/** frozen_prefix_even_ns() - return the part of @busy_ns, the slot's time in a step, by which it
 * can be compared with the other replicas' slots: a node may have kept the samples of some lanes
 * and not of others. Where nothing else is computed it is the same for every slot */
uint64_t frozen_prefix_even_ns(const struct engine *engine, uint64_t busy_ns);
/** frozen_prefix_forward() - fill the frozen units' output of slot @slot; their tokens are in
 * engine->tokens */
void frozen_prefix_forward(struct engine *engine, unsigned slot);
