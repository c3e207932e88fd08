#include "bench/lib/rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/philox.h"
#include "bench/lib/measure.h"
#include "elastic/job/job_spec.h"

#define TOKENS 65536

struct rig_options rig_gpt2_124m(unsigned thread_count)
{
    return (struct rig_options){.layers = 12,
                                .width = 768,
                                .heads = 12,
                                .context = 64,
                                .vocab = 50257,
                                .micro_batch = 4,
                                .thread_count = thread_count};
}

/* Write tokens from the whole vocabulary, so that embedding and loss touch memory as with real
 * text. */
static void write_tokens(const struct rig *rig, char ret_path[512])
{
    struct philox_key key = philox_key_make(1, 1);
    uint16_t *tokens = malloc(TOKENS * sizeof(*tokens));
    float *uniform = malloc(TOKENS * sizeof(*uniform));

    snprintf(ret_path, 512, "%s/tokens.bin", rig->scratch.path);
    FILE *file = fopen(ret_path, "w");
    if (!tokens || !uniform || !file)
        measure_die("%s cannot be written", ret_path);
    philox_fill_normal(key, 0, 0.0f, 1.0f, uniform, TOKENS);
    for (unsigned i = 0; i < TOKENS; i++)
        tokens[i] = (uint16_t)((uint32_t)(uniform[i] * 1e6f + 1e7f) % rig->spec.model.vocab);
    if (fwrite(tokens, sizeof(*tokens), TOKENS, file) != TOKENS || fclose(file))
        measure_die("%s cannot be written", ret_path);
    free(tokens);
    free(uniform);
}

static void describe_job(struct rig *rig, const struct rig_options *options)
{
    struct job_spec *spec = &rig->spec;

    snprintf(spec->name, sizeof(spec->name), "bench");
    snprintf(spec->model.family, sizeof(spec->model.family), "gpt2");
    spec->model.layers = options->layers;
    spec->model.width = options->width;
    spec->model.heads = options->heads;
    spec->model.context = options->context;
    spec->model.vocab = options->vocab;
    spec->model.tied = true;
    spec->train.steps = UINT32_MAX;
    spec->train.lanes = MAX(options->lanes, 1u);
    spec->train.micro_batches_per_lane = 1;
    spec->train.micro_batch = options->micro_batch;
    spec->train.seed = 1;
    snprintf(spec->train.optimizer.name, sizeof(spec->train.optimizer.name), "adamw");
    spec->train.optimizer.lr = 1e-4;
    spec->train.optimizer.beta1 = 0.9;
    spec->train.optimizer.beta2 = 0.95;
    spec->train.optimizer.epsilon = 1e-8;
    spec->train.optimizer.weight_decay = 0.1;
    spec->train.optimizer.clip = 1.0;
    spec->checkpoint.keep = 1;
}

static void open_dataset(struct rig *rig)
{
    char path[512];
    const char *paths[] = {path};
    const struct dataset_options options = {.format = DATASET_UINT16,
                                            .paths = paths,
                                            .path_count = 1,
                                            .context = rig->spec.model.context,
                                            .vocab = rig->spec.model.vocab,
                                            .seed = 1};
    struct error error = {0};

    write_tokens(rig, path);
    if (dataset_open(&options, &rig->dataset, &error))
        measure_die("%s", error.text);
}

static void make_plan(struct rig *rig)
{
    struct plan *plan = plan_new();

    rig->plan = plan;
    if (plan) {
        plan->layout.workers = calloc(1, sizeof(*plan->layout.workers));
        plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
        plan->layout.replica_first_lane = calloc(2, sizeof(unsigned));
    }
    if (!plan || !plan->layout.workers || !plan->layout.stage_first_unit ||
        !plan->layout.replica_first_lane)
        measure_die("no memory for a plan");
    plan->generation = plan->layout.stage_count = plan->layout.replica_count =
        plan->layout.worker_count = 1;
    snprintf(plan->job, sizeof(plan->job), "%s", rig->spec.name);
    snprintf(plan->layout.workers[0].node, sizeof(plan->layout.workers[0].node), "bench");
    plan->layout.stage_first_unit[1] = rig->state->unit_count;
    plan->layout.replica_first_lane[1] = rig->spec.train.lanes;
}

static void open_mesh(struct rig *rig)
{
    struct mesh_options options = {.generation = 1,
                                   .failure_timeout_ns = 10 * NS_PER_SECOND,
                                   .connect_timeout_ns = 10 * NS_PER_SECOND};
    struct error error = {0};

    snprintf(options.job, sizeof(options.job), "%s", rig->spec.name);
    if (mesh_listen("127.0.0.1:0", &rig->listener, &error))
        measure_die("%s", error.text);
    options.listener = rig->listener;
    if (mesh_open(&options, -1, &rig->mesh, &error))
        measure_die("%s", error.text);
    const struct routes_options routes = {.mesh = rig->mesh,
                                          .plan = rig->plan,
                                          .kernel = rig->kernel,
                                          .device = rig->device,
                                          .nccl = &rig->nccl,
                                          .failure_timeout_ns = options.failure_timeout_ns};
    if (routes_open(&routes, &rig->routes, &error))
        measure_die("%s", error.text);
}

void rig_renew(struct rig *rig)
{
    struct error error = {0};

    engine_free(rig->engine);
    rig->engine = NULL;
    if (engine_new(&(struct engine_options){.state = rig->state,
                                            .dataset = rig->dataset,
                                            .plan = rig->plan,
                                            .routes = &rig->routes,
                                            .warm = rig->warms},
                   &rig->engine, &error))
        measure_die("%s", error.text);
}

static void open_engine(struct rig *rig, unsigned thread_count)
{
    const struct kernel_options options = {.thread_count = thread_count};
    struct error error = {0};

    if (rig->kernel->open(&options, &rig->device, &error) ||
        state_new(&rig->spec, rig->kernel, rig->device, &rig->state, &error) ||
        state_initialize(rig->state, 0, rig->state->unit_count, &error))
        measure_die("%s", error.text);
    make_plan(rig);
    open_mesh(rig);
    rig_renew(rig);
}

struct rig *rig_open(const struct rig_options *options)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    if (!rig || !(rig->up = calloc(1, sizeof(*rig->up))) ||
        !(rig->down = calloc(1, sizeof(*rig->down))))
        measure_die("no memory");
    rig->warms = options->warm ? &rig->warm : NULL;
    scratch_open(&rig->scratch, options->folder, "firn-bench");
    rig->kernel = options->kernel ? options->kernel : kernel_cpu();
    describe_job(rig, options);
    open_dataset(rig);
    open_engine(rig, options->thread_count);
    return rig;
}

void rig_close(struct rig *rig)
{
    engine_free(rig->engine);
    routes_close(&rig->routes);
    mesh_close(rig->mesh);
    mesh_listener_close(&rig->listener);
    plan_free(rig->plan);
    state_free(rig->state);
    rig->kernel->close(rig->device);
    dataset_close(rig->dataset);
    scratch_close(&rig->scratch);
    free(rig->up);
    free(rig->down);
    free(rig);
}

double rig_step(struct rig *rig, struct snapshot *snapshot)
{
    struct error error = {0};
    double waited = 0.0;

    if (engine_compute(rig->engine, &error))
        measure_die("%s", error.text);
    rig->up->data_digest = dataset_digest(rig->dataset).low;
    rig->up->record = rig->state->hold;
    if (commit_round_run(rig->mesh, rig->plan, 0, false, rig->up, &(struct commit_root){0},
                         rig->down, &error))
        measure_die("%s", error.text);
    if (snapshot) {
        waited = -measure_now();
        snapshot_release(snapshot);
        waited += measure_now();
    }
    engine_apply(rig->engine, &rig->down->record);
    return waited;
}
