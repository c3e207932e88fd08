#include "worker/step/frozen_prefix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker/step/engine.h"
#include "worker/step/job_dataset.h"

/* ---- places: validation samples first, then those to train on ---- */

static uint64_t validation_samples(const struct engine *engine)
{
    const struct job_spec *spec = engine->state->spec;

    if (!spec->evaluate.every)
        return 0;
    return (uint64_t)job_dataset_validation_batches(&spec->evaluate, &spec->train,
                                                    engine->samples.dataset) *
           spec->train.micro_batch;
}

static bool is_kept(const struct engine *engine)
{
    return engine->part.stage_index == 0 && engine->state->spec->elastic.freeze.cache_mb > 0 &&
           (engine->state->kernel->host_memory || engine->plan->layout.stage_count == 1) &&
           stage_frozen_units(engine->stage) > 0 &&
           job_dataset_repeats(&engine->state->spec->train, engine->samples.dataset, 0);
}

/* Open the file once the weights have arrived. */
static bool begin(struct engine *engine, struct frozen_cache *cache)
{
    struct frozen_outputs_part part = {
        .last_dispute = engine->plan->start.last_dispute,
        .weights =
            frozen_weights_digest(cache->weights, engine->state, stage_frozen_units(engine->stage)),
        .data = dataset_digest(engine->samples.dataset),
        .unit_count = stage_frozen_units(engine->stage),
        .sample_count =
            engine->prefix.validation_count + dataset_train_count(engine->samples.dataset),
        .sample_bytes = stage_sample_bytes(engine->stage),
    };

    return frozen_outputs_begin(cache->outputs, &part);
}

/* The other nodes of the plan, starting after this node, so that each is asked by equally many. */
static unsigned list_others(const struct plan *plan, unsigned rank,
                            struct checkpoint_remote_node *ret_nodes)
{
    const struct plan_hosts *hosts = &plan->hosts;
    const char *own = plan->layout.workers[rank].node;
    unsigned place = 0, count = 0;

    while (place < hosts->count && strcmp(hosts->list[place].node, own) != 0)
        place++;
    for (unsigned i = 1; i <= hosts->count; i++) {
        const struct plan_host *host = &hosts->list[(place + i) % hosts->count];
        if (strcmp(host->node, own) == 0)
            continue;
        memcpy(ret_nodes[count].name, host->node, sizeof(ret_nodes[count].name));
        memcpy(ret_nodes[count++].http, host->http, sizeof(ret_nodes[count].http));
    }
    return count;
}

static void reach_others(const struct engine *engine, const struct frozen_cache *cache)
{
    const struct plan *plan = engine->plan;
    AUTO_FREE struct checkpoint_remote_node *nodes =
        calloc((size_t)plan->hosts.count + 1, sizeof(*nodes));
    struct checkpoint_remote_options others = {
        .job = plan->job, .nodes = nodes, .timeout_ns = cache->timeout_ns};

    if (!nodes || !plan_key_bytes(plan->links.key, others.key))
        return;
    others.node_count = list_others(plan, engine->part.rank, nodes);
    frozen_outputs_reach(cache->outputs, &others);
}

static bool is_used(struct engine *engine)
{
    struct frozen_prefix *prefix = &engine->prefix;

    if (prefix->offered && begin(engine, prefix->offered)) {
        prefix->cache = prefix->offered;
        reach_others(engine, prefix->cache);
    }
    prefix->offered = NULL;
    return prefix->cache;
}

static int open_host(struct engine *engine)
{
    const struct state *state = engine->state;

    if (state->kernel->host_memory)
        return 0;
    engine->prefix.host = malloc(stage_sample_bytes(engine->stage));
    return engine->prefix.host ? state->kernel->event_new(state->device, &engine->prefix.arrived)
                               : -ENOMEM;
}

int frozen_prefix_open(struct engine *engine, struct frozen_cache *cache)
{
    struct frozen_prefix *prefix = &engine->prefix;
    unsigned batch = engine->state->spec->train.micro_batch;

    prefix->is_uneven = is_kept(engine);
    if (!cache || !cache->outputs || !prefix->is_uneven)
        return 0;
    prefix->validation_count = validation_samples(engine);
    prefix->places = calloc(batch, sizeof(*prefix->places));
    prefix->returns = calloc(batch, sizeof(*prefix->returns));
    if (!prefix->places || !prefix->returns || open_host(engine))
        return -ENOMEM;
    prefix->offered = cache;
    return 0;
}

void frozen_prefix_close(struct engine *engine)
{
    if (engine->prefix.cache) /* other nodes know this one by a key that ends here */
        frozen_outputs_part_company(engine->prefix.cache->outputs);
    engine->state->kernel->event_free(engine->state->device, engine->prefix.arrived);
    free(engine->prefix.host);
    free(engine->prefix.places);
    free(engine->prefix.returns);
}

struct planner_kept frozen_prefix_kept(const struct engine *engine)
{
    const struct frozen_cache *cache = engine->prefix.cache;
    struct planner_kept kept = {0};

    if (cache)
        kept.unit_count = frozen_outputs_met(cache->outputs, &kept.share);
    return kept;
}

void frozen_prefix_train(struct engine *engine, uint64_t position, uint64_t next_position)
{
    struct frozen_prefix *prefix = &engine->prefix;
    const struct job_training *training = &engine->state->spec->train;
    uint64_t first = prefix->validation_count;

    for (unsigned i = 0; is_used(engine) && i < training->micro_batch; i++) {
        prefix->places[i] = first + dataset_train_sample(engine->samples.dataset, position + i);
        prefix->returns[i] = job_dataset_repeats(training, engine->samples.dataset, position + i);
        if (next_position != UINT64_MAX)
            frozen_outputs_expect(
                prefix->cache->outputs,
                first + dataset_train_sample(engine->samples.dataset, next_position + i));
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
    struct engine *engine = place->engine;

    return engine->prefix.host
               ? engine->prefix.host
               : stage_frozen_output(engine->stage, unit_count, place->slot, place->sample);
}

/* Return how many units need not be computed. */
static unsigned load(struct engine *engine, unsigned slot, unsigned sample)
{
    const struct state *state = engine->state;
    struct frozen_prefix *prefix = &engine->prefix;
    struct place place = {engine, slot, sample};
    const struct frozen_outputs_target target = {output_at, &place};

    if (!prefix->cache)
        return 0;
    unsigned found = frozen_outputs_load(prefix->cache->outputs, prefix->places[sample], &target);
    if (found > 0 && prefix->host)
        state->kernel->upload(state->device,
                              stage_frozen_output(engine->stage, found, slot, sample), prefix->host,
                              stage_sample_bytes(engine->stage));
    return found;
}

/* Copy an output to the host. A failed device does not write there: an output that still begins or
 * ends with the earlier pattern may not have arrived. Return NULL then. */
static const void *fetch(struct engine *engine, const void *output)
{
    static const uint64_t pattern = 0xfff1a9b3c5d7e4f2;
    const struct state *state = engine->state;
    struct frozen_prefix *prefix = &engine->prefix;
    size_t size_bytes = stage_sample_bytes(engine->stage);
    char *last = prefix->host + size_bytes - sizeof(pattern);

    memcpy(prefix->host, &pattern, sizeof(pattern));
    memcpy(last, &pattern, sizeof(pattern));
    state->kernel->download(state->device, prefix->host, output, size_bytes);
    state->kernel->event_record(state->device, prefix->arrived, KERNEL_QUEUE_COMPUTE);
    state->kernel->event_wait(state->device, prefix->arrived);
    return memcmp(prefix->host, &pattern, sizeof(pattern)) == 0 ||
                   memcmp(last, &pattern, sizeof(pattern)) == 0
               ? NULL
               : prefix->host;
}

static void keep(struct engine *engine, unsigned slot, unsigned sample, unsigned from,
                 uint64_t began_ns)
{
    struct frozen_prefix *prefix = &engine->prefix;
    unsigned count = stage_frozen_units(engine->stage);
    const void *output = stage_frozen_output(engine->stage, count, slot, sample);

    if (prefix->host)
        output = fetch(engine, output);
    frozen_outputs_keep(prefix->cache->outputs, prefix->places[sample], output, from,
                        clock_monotonic_ns() - began_ns);
}

static void compute(struct engine *engine, unsigned slot, unsigned sample, unsigned from)
{
    struct frozen_prefix *prefix = &engine->prefix;
    uint64_t began_ns = clock_monotonic_ns();

    stage_forward_frozen(engine->stage, slot, sample, from, engine->weights,
                         engine->samples.tokens +
                             (size_t)sample * engine->state->spec->model.context);
    if (!prefix->cache)
        return;
    if (prefix->returns[sample] &&
        frozen_outputs_keeps(prefix->cache->outputs, prefix->places[sample]))
        keep(engine, slot, sample, from, began_ns);
    else /* a device has only begun the work */
        frozen_outputs_pass(prefix->cache->outputs, from,
                            prefix->host ? 0 : clock_monotonic_ns() - began_ns);
}

uint64_t frozen_prefix_even_ns(const struct engine *engine, uint64_t busy_ns)
{
    if (!engine->prefix.is_uneven)
        return busy_ns;
    return engine->position.backward ? busy_ns - engine->prefix.took_ns
                                     : engine->part.micro_batch_count * NS_PER_US;
}

void frozen_prefix_begin(struct engine *engine)
{
    engine->prefix.took_ns = 0;
    if (engine->prefix.cache)
        frozen_outputs_begin_step(engine->prefix.cache->outputs);
}

void frozen_prefix_want(struct engine *engine, uint64_t position)
{
    const struct frozen_prefix *prefix = &engine->prefix;

    for (unsigned i = 0; prefix->cache && i < engine->state->spec->train.micro_batch; i++)
        frozen_outputs_want(prefix->cache->outputs,
                            prefix->validation_count +
                                dataset_train_sample(engine->samples.dataset, position + i));
}

/* Wait for the previous micro-batch on the device: its time must not count for this one. */
static void await_device(struct engine *engine)
{
    const struct state *state = engine->state;
    struct frozen_prefix *prefix = &engine->prefix;

    if (!prefix->host || !prefix->cache || !frozen_outputs_is_active(prefix->cache->outputs))
        return;
    state->kernel->event_record(state->device, prefix->arrived, KERNEL_QUEUE_COMPUTE);
    state->kernel->event_wait(state->device, prefix->arrived);
}

void frozen_prefix_forward(struct engine *engine, unsigned slot)
{
    unsigned count = stage_frozen_units(engine->stage);

    await_device(engine);
    uint64_t began_ns = clock_monotonic_ns();
    for (unsigned sample = 0; count && sample < engine->state->spec->train.micro_batch; sample++) {
        unsigned found = load(engine, slot, sample);
        if (found < count)
            compute(engine, slot, sample, found);
    }
    engine->prefix.took_ns += clock_monotonic_ns() - began_ns;
}
