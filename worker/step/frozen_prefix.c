#include "worker/step/frozen_prefix.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/step/engine.h"
#include "worker/step/job_dataset.h"

/* ---- places: validation samples first, then those to train on ---- */

static uint64_t validation_samples(const struct engine *engine)
{
    const struct job_spec *spec = engine->state->spec;

    if (!spec->evaluate.every)
        return 0;
    return (uint64_t)job_dataset_validation_batches(&spec->evaluate, &spec->train,
                                                    engine->dataset) *
           spec->train.micro_batch;
}

static bool is_kept(const struct engine *engine)
{
    return engine->part.stage_index == 0 && engine->state->kernel->host_memory &&
           stage_frozen_units(engine->stage) > 0 &&
           job_dataset_repeats(&engine->state->spec->train, engine->dataset, 0);
}

/* Open the file once the weights are there. */
static bool begin(struct engine *engine, struct frozen_cache *cache)
{
    struct frozen_outputs_part part = {
        .data = dataset_digest(engine->dataset),
        .unit_count = stage_frozen_units(engine->stage),
        .sample_count = engine->prefix.validation_count + dataset_train_count(engine->dataset),
        .sample_bytes = stage_sample_bytes(engine->stage),
    };

    if (frozen_weights_digest(cache->weights, engine->state, part.unit_count, &part.weights)) {
        log_warning("outputs of frozen layers are not kept: no memory");
        return false;
    }
    return frozen_outputs_begin(cache->outputs, &part);
}

static bool is_used(struct engine *engine)
{
    struct frozen_prefix *prefix = &engine->prefix;

    if (prefix->offered && begin(engine, prefix->offered))
        prefix->cache = prefix->offered;
    prefix->offered = NULL;
    return prefix->cache;
}

int frozen_prefix_open(struct engine *engine, struct frozen_cache *cache)
{
    struct frozen_prefix *prefix = &engine->prefix;
    unsigned batch = engine->state->spec->train.micro_batch;

    if (!cache || !cache->outputs || !is_kept(engine))
        return 0;
    prefix->validation_count = validation_samples(engine);
    prefix->places = calloc(batch, sizeof(*prefix->places));
    prefix->returns = calloc(batch, sizeof(*prefix->returns));
    if (!prefix->places || !prefix->returns)
        return -ENOMEM;
    prefix->offered = cache;
    return 0;
}

void frozen_prefix_close(struct engine *engine)
{
    free(engine->prefix.places);
    free(engine->prefix.returns);
}

void frozen_prefix_train(struct engine *engine, uint64_t position, uint64_t next_position)
{
    struct frozen_prefix *prefix = &engine->prefix;
    const struct job_training *training = &engine->state->spec->train;
    uint64_t first = prefix->validation_count;

    for (unsigned i = 0; is_used(engine) && i < training->micro_batch; i++) {
        prefix->places[i] = first + dataset_train_sample(engine->dataset, position + i);
        prefix->returns[i] = job_dataset_repeats(training, engine->dataset, position + i);
        if (next_position != UINT64_MAX)
            frozen_outputs_expect(prefix->cache->outputs,
                                  first + dataset_train_sample(engine->dataset, next_position + i));
    }
}

void frozen_prefix_validate(struct engine *engine, uint64_t first)
{
    struct frozen_prefix *prefix = &engine->prefix;

    for (unsigned i = 0; is_used(engine) && i < engine->state->spec->train.micro_batch; i++) {
        prefix->places[i] = first + i;
        prefix->returns[i] = true;
    }
}

/* ---- forward ---- */

struct place {
    struct engine *engine;
    unsigned slot, sample;
};

static void *output_at(void *context, unsigned unit_count)
{
    const struct place *place = context;

    return stage_frozen_output(place->engine->stage, unit_count, place->slot, place->sample);
}

static unsigned load(struct engine *engine, unsigned slot, unsigned sample)
{
    struct place place = {engine, slot, sample};
    const struct frozen_outputs_target target = {output_at, &place};

    return engine->prefix.cache ? frozen_outputs_load(engine->prefix.cache->outputs,
                                                      engine->prefix.places[sample], &target)
                                : 0;
}

static void compute(struct engine *engine, unsigned slot, unsigned sample, unsigned from)
{
    struct frozen_prefix *prefix = &engine->prefix;
    unsigned count = stage_frozen_units(engine->stage);
    uint64_t began_ns = clock_monotonic_ns();

    stage_forward_frozen(engine->stage, slot, sample, from, engine->weights,
                         engine->samples.tokens +
                             (size_t)sample * engine->state->spec->model.context);
    if (prefix->cache)
        frozen_outputs_keep(prefix->cache->outputs, prefix->places[sample],
                            prefix->returns[sample]
                                ? stage_frozen_output(engine->stage, count, slot, sample)
                                : NULL,
                            from, clock_monotonic_ns() - began_ns);
}

uint64_t frozen_prefix_uneven_ns(const struct engine *engine)
{
    return engine->prefix.cache && engine->position.backward ? engine->prefix.took_ns : 0;
}

void frozen_prefix_forward(struct engine *engine, unsigned slot)
{
    unsigned count = stage_frozen_units(engine->stage);
    uint64_t began_ns = clock_monotonic_ns();

    for (unsigned sample = 0; count && sample < engine->state->spec->train.micro_batch; sample++) {
        unsigned found = load(engine, slot, sample);
        if (found < count)
            compute(engine, slot, sample, found);
    }
    engine->prefix.took_ns += clock_monotonic_ns() - began_ns;
}
