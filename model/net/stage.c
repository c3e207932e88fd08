/*
 * The buffers of a stage. They come from one device allocation. A carver walks the layout twice,
 * first to measure it, then to hand out addresses, so stage_memory_bytes() and stage_new() cannot
 * disagree, and a planner can trust the number.
 *
 * Per slot: tokens, the residual stream at every cut, the kept activations of each unit. Shared by
 * all slots: the scratch buffers, the two stream gradients, and the head's activations if backward
 * is split.
 */
#include "model/net/stage.h"

#include <errno.h>
#include <math.h>

#include "base/checked.h"
#include "model/net/rotary.h"
#include "model/net/stage_private.h"

#define BUFFER_ALIGN 64

struct carver {
    char *base; /* NULL: only measure */
    size_t activation_size;
    size_t used_bytes;
    bool overflow;
};

static void *carve_elements(struct carver *carver, size_t rows, size_t columns, size_t element_size)
{
    size_t size_bytes, end;
    void *buffer = !carver->base ? NULL : carver->base + carver->used_bytes;

    if (checked_multiply(rows, columns, &size_bytes) ||
        checked_multiply(size_bytes, element_size, &size_bytes) ||
        checked_add(size_bytes, BUFFER_ALIGN - 1, &size_bytes) ||
        checked_add(carver->used_bytes, size_bytes / BUFFER_ALIGN * BUFFER_ALIGN, &end)) {
        carver->overflow = true;
        return NULL;
    }
    carver->used_bytes = end;
    return buffer;
}

/* @rows x @columns activations */
static void *carve(struct carver *carver, size_t rows, size_t columns)
{
    return carve_elements(carver, rows, columns, carver->activation_size);
}

/* Carve statistics and tokens: always 4 bytes per element, for every type of activations. */
static void *carve_words(struct carver *carver, size_t rows, size_t columns)
{
    return carve_elements(carver, rows, columns, sizeof(float));
}

static struct activations carve_activations(struct carver *carver, const struct model_spec *spec,
                                            enum unit_kind kind, size_t rows)
{
    struct activations kept = {0};

    if (kind == UNIT_EMBEDDING)
        return kept;
    kept.norm = carve(carver, rows, spec->width);
    if (spec->family == MODEL_GPT2)
        kept.mean = carve_words(carver, rows, 1);
    kept.rstd = carve_words(carver, rows, 1);
    if (kind == UNIT_HEAD) {
        kept.logits = carve(carver, rows, model_logits_stride(spec));
        kept.losses = carve_words(carver, rows, 1);
        return kept;
    }
    struct unit_widths widths = model_unit_widths(spec, kind);
    kept.wide = carve(carver, rows, widths.wide);
    kept.mixed = carve(carver, rows, widths.mixed);
    if (kind == UNIT_ATTENTION)
        kept.log_sum = carve_words(carver, rows, spec->heads);
    return kept;
}

static enum unit_kind unit_kind_of(const struct model_spec *spec, unsigned unit)
{
    struct unit_layout layout;
    model_unit_layout(spec, unit, &layout);
    return layout.kind;
}

/* Return whether all slots share the unit's activations. */
static bool shares(const struct stage_options *options, unsigned index)
{
    enum unit_kind kind = unit_kind_of(options->spec, options->first_unit + index);

    return index < options->frozen || (kind == UNIT_HEAD && options->splits) ||
           stage_recomputes(options->recompute, kind);
}

static float *carve_norms(struct carver *carver, const struct stage_options *options,
                          unsigned index)
{
    struct unit_layout layout;

    model_unit_layout(options->spec, options->first_unit + index, &layout);
    size_t count = stage_norms_count(&layout);
    bool wanted = options->splits && !shares(options, index);
    return wanted && count > 0 ? carve_words(carver, count, 1) : NULL;
}

/* Return whether stream @index is written and read only by frozen units. */
static bool is_between_frozen(const struct stage_options *options, unsigned index)
{
    return index > 0 && index < options->frozen;
}

/* Carve the buffers of a slot; only measure if @slot is NULL. */
static void carve_slot(struct carver *carver, const struct stage_options *options, size_t rows,
                       struct stage_slot *slot)
{
    struct stage_slot measured = {0};
    const struct model_spec *spec = options->spec;
    unsigned end = options->first_unit + options->unit_count;
    bool has_embedding = options->first_unit == 0, has_head = end == model_unit_count(spec);

    if (!slot)
        slot = &measured;
    if (has_embedding)
        slot->tokens = carve_words(carver, rows, 1);
    if (has_head)
        slot->targets = carve_words(carver, rows, 1);
    for (unsigned i = 0; i <= options->unit_count; i++) {
        bool exists = !(i == 0 && has_embedding) && !(i == options->unit_count && has_head);
        void *stream =
            exists && !is_between_frozen(options, i) ? carve(carver, rows, spec->width) : NULL;
        if (slot->streams)
            slot->streams[i] = stream;
    }
    for (unsigned i = 0; i < options->unit_count; i++) {
        struct activations kept = {0};
        if (!shares(options, i))
            kept =
                carve_activations(carver, spec, unit_kind_of(spec, options->first_unit + i), rows);
        float *norms = carve_norms(carver, options, i);
        if (slot->activations) {
            slot->activations[i] = kept;
            slot->norms[i] = norms;
        }
    }
}

/* Carve one set of activations for each kind of unit that shares them. One set is enough, because
 * one forward or backward runs at a time. */
static void carve_again(struct carver *carver, const struct stage_options *options, size_t rows,
                        struct stage *stage)
{
    bool carved[UNIT_HEAD + 1] = {false};

    for (unsigned i = 0; i < options->unit_count; i++) {
        enum unit_kind kind = unit_kind_of(options->spec, options->first_unit + i);
        if (carved[kind] || kind == UNIT_EMBEDDING || !shares(options, i))
            continue;
        bool of_samples = i < options->frozen && !stage_recomputes(options->recompute, kind);
        stage->shared.again[kind] = carve_activations(carver, options->spec, kind,
                                                      of_samples ? options->spec->context : rows);
        carved[kind] = true;
    }
}

/* Frozen units compute one sample at a time. */
static void carve_frozen_streams(struct carver *carver, const struct stage_options *options,
                                 struct stage *stage)
{
    for (unsigned i = 1; i < options->frozen; i++) {
        void **stream = &stage->shared.frozen_streams[i % 2];
        if (i <= 2)
            *stream = carve(carver, options->spec->context, options->spec->width);
        for (unsigned slot = 0; stage->slots && slot < options->slots; slot++)
            stage->slots[slot].streams[i] = *stream;
    }
}

static void carve_unread_norms(struct carver *carver, const struct stage_options *options,
                               struct stage *stage)
{
    size_t most = 0;

    for (unsigned i = options->frozen; options->splits && i < options->unit_count; i++) {
        struct unit_layout layout;
        model_unit_layout(options->spec, options->first_unit + i, &layout);
        most = MAX(most, stage_norms_count(&layout));
    }
    if (most > 0)
        stage->shared.unread_norms = carve_words(carver, most, 1);
}

static bool has_attention(const struct stage_options *options)
{
    for (unsigned i = 0; i < options->unit_count; i++)
        if (unit_kind_of(options->spec, options->first_unit + i) == UNIT_ATTENTION)
            return true;
    return false;
}

/* Carve the buffers for rotary embedding and norms of a llama's queries and keys. */
static void carve_heads(struct carver *carver, const struct stage_options *options, size_t rows,
                        struct stage *stage)
{
    const struct model_spec *spec = options->spec;

    if (spec->family != MODEL_LLAMA || !has_attention(options))
        return;
    stage->rotary_angles = carve_words(carver, spec->context, spec->head_width);
    if (!spec->qk_norm)
        return;
    stage->normed_heads = carve(carver, rows, model_unit_widths(spec, UNIT_ATTENTION).wide);
    stage->head_rstd = carve_words(carver, rows, spec->heads + spec->kv_heads);
}

/* Carve the whole stage; only measure if @stage is NULL. */
static void carve_stage(struct carver *carver, const struct stage_options *options,
                        struct stage *stage)
{
    struct stage measured = {0};
    const struct model_spec *spec = options->spec;
    size_t rows = (size_t)options->batch * spec->context, width = spec->width;

    if (!stage)
        stage = &measured;
    for (unsigned i = 0; i < options->slots && !carver->overflow; i++)
        carve_slot(carver, options, rows, !stage->slots ? NULL : &stage->slots[i]);
    carve_again(carver, options, rows, stage);
    carve_frozen_streams(carver, options, stage);
    carve_unread_norms(carver, options, stage);
    stage->scratch = carve(carver, rows, stage_scratch_width(spec));
    stage->scratch_wide = carve(carver, rows, stage_scratch_wide_width(spec));
    carve_heads(carver, options, rows, stage);
    stage->stream_gradient = carve(carver, rows, width);
    if (options->first_unit != 0)
        stage->input_gradient = carve(carver, rows, width);
}

/* Choose the attention kernel before memory is counted: it may take memory of its own. */
static int prepare(const struct stage_options *options)
{
    const struct kernel_attention shape = stage_attention_of(options->spec, options->batch);
    const struct kernel_attention sample = stage_attention_of(options->spec, 1);

    if (!has_attention(options))
        return 0;
    int status = options->kernel->attention_prepare(options->device, shape);
    return status == 0 && (options->frozen > 0 || options->freezes) && options->batch > 1
               ? options->kernel->attention_prepare(options->device, sample)
               : status;
}

size_t stage_memory_bytes(const struct stage_options *options)
{
    struct carver carver = {.activation_size = options->kernel->activation_size};
    carve_stage(&carver, options, NULL);
    return carver.overflow || prepare(options) < 0 ? SIZE_MAX : carver.used_bytes;
}

/* Allocate the host's part: everything that is not on the device. */
static int allocate_tables(struct stage *stage)
{
    stage->layouts = calloc(stage->unit_count, sizeof(*stage->layouts));
    stage->slots = calloc(stage->slot_count, sizeof(*stage->slots));
    stage->host_losses = calloc(stage->rows, sizeof(*stage->host_losses));
    stage->recorded_weights = calloc(stage->unit_count, sizeof(*stage->recorded_weights));
    if (stage->kernel->event_new(stage->device, &stage->computed))
        return -ENOMEM;
    if (!stage->layouts || !stage->slots || !stage->host_losses || !stage->recorded_weights ||
        recordings_new(stage->kernel, stage->device,
                       stage_frozen_place(stage, stage->slot_count, 0), &stage->recordings))
        return -ENOMEM;

    for (unsigned i = 0; i < stage->unit_count; i++)
        model_unit_layout(&stage->spec, stage->first_unit + i, &stage->layouts[i]);
    for (unsigned i = 0; i < stage->slot_count; i++) {
        struct stage_slot *slot = &stage->slots[i];
        slot->streams = calloc(stage->unit_count + 1, sizeof(*slot->streams));
        slot->activations = calloc(stage->unit_count, sizeof(*slot->activations));
        slot->norms = calloc(stage->unit_count, sizeof(*slot->norms));
        if (!slot->streams || !slot->activations || !slot->norms)
            return -ENOMEM;
    }
    return 0;
}

static int make_rotary_angles(struct stage *stage)
{
    size_t count = (size_t)stage->spec.context * stage->spec.head_width;
    AUTO_FREE float *angles = NULL;

    if (!stage->rotary_angles)
        return 0;
    angles = malloc(count * sizeof(*angles));
    if (!angles)
        return -ENOMEM;
    rotary_angles(&stage->spec, angles);
    stage->kernel->upload(stage->device, stage->rotary_angles, angles, count * sizeof(*angles));
    return 0;
}

/* Allocate on the device first: if that fails, no host memory was allocated. */
static int allocate(struct stage *stage, const struct stage_options *options)
{
    size_t size_bytes = stage_memory_bytes(options);
    if (size_bytes == SIZE_MAX)
        return -ENOMEM;

    int status =
        !options->memory ? stage->kernel->allocate(stage->device, size_bytes, &stage->memory) : 0;
    if (status == 0)
        status = allocate_tables(stage);
    if (status < 0)
        return status;
    struct carver carver = {.base = !options->memory ? stage->memory : options->memory,
                            .activation_size = options->kernel->activation_size};
    carve_stage(&carver, options, stage);
    assert(carver.used_bytes == size_bytes);
    return make_rotary_angles(stage);
}

int stage_new(const struct stage_options *options, struct stage **ret_stage, struct error *error)
{
    assert(options->unit_count >= 1 && options->batch >= 1 && options->slots >= 1);
    assert(options->first_unit + options->unit_count <= model_unit_count(options->spec));
    assert(options->frozen <= options->unit_count);
    struct stage *stage = calloc(1, sizeof(*stage));
    if (!stage)
        return error_set(error, -ENOMEM, "no memory for a stage");
    stage->kernel = options->kernel;
    stage->device = options->device;
    stage->spec = *options->spec;
    stage->first_unit = options->first_unit;
    stage->unit_count = options->unit_count;
    stage->shared.frozen = options->frozen;
    stage->shared.splits = options->splits;
    stage->batch = options->batch;
    stage->slot_count = options->slots;
    stage->shared.recompute = options->recompute;
    stage->rows = (size_t)options->batch * options->spec->context;

    int status = allocate(stage, options);
    if (status < 0) {
        stage_free(stage);
        return error_set(error, status,
                         "units %u to %u with %u micro-batches in flight need %zu bytes",
                         options->first_unit, options->first_unit + options->unit_count - 1,
                         options->slots, stage_memory_bytes(options));
    }
    *ret_stage = stage;
    return 0;
}

void stage_free(struct stage *stage)
{
    if (!stage)
        return;
    recordings_free(stage->recordings);
    free(stage->recorded_weights);
    stage->kernel->release(stage->device, stage->memory);
    for (unsigned i = 0; stage->slots && i < stage->slot_count; i++) {
        free(stage->slots[i].streams);
        free(stage->slots[i].activations);
        free(stage->slots[i].norms);
    }
    free(stage->slots);
    free(stage->layouts);
    free(stage->host_losses);
    stage->kernel->event_free(stage->device, stage->computed);
    free(stage);
}

struct stage_slot *stage_slot_of(struct stage *stage, unsigned slot)
{
    assert(slot < stage->slot_count);
    return &stage->slots[slot];
}

size_t stage_boundary_bytes(const struct stage *stage)
{
    return stage->rows * stage->spec.width * stage->kernel->activation_size;
}

void *stage_input(struct stage *stage, unsigned slot)
{
    return stage_slot_of(stage, slot)->streams[0];
}

void *stage_output(struct stage *stage, unsigned slot)
{
    return stage_slot_of(stage, slot)->streams[stage->unit_count];
}

bool stage_splits_unit(const struct stage *stage, unsigned unit)
{
    enum unit_kind kind = stage->layouts[unit - stage->first_unit].kind;

    return stage->shared.splits && kind != UNIT_HEAD &&
           !stage_recomputes(stage->shared.recompute, kind);
}

unsigned stage_frozen_units(const struct stage *stage)
{
    return stage->shared.frozen;
}

size_t stage_sample_bytes(const struct stage *stage)
{
    return stage_boundary_bytes(stage) / stage->batch;
}

void *stage_frozen_output(struct stage *stage, unsigned unit_count, unsigned slot, unsigned sample)
{
    assert(unit_count > 0 && unit_count <= stage->shared.frozen && sample < stage->batch);
    return stage_stream_of_sample(stage, stage_slot_of(stage, slot), unit_count, sample);
}

void *stage_output_gradient(struct stage *stage)
{
    return stage->stream_gradient;
}

void *stage_input_gradient(struct stage *stage)
{
    return stage->input_gradient;
}

static const struct activations *head_activations(struct stage *stage, unsigned slot)
{
    assert(stage->layouts[stage->unit_count - 1].kind == UNIT_HEAD);
    return stage_activations(stage, stage_slot_of(stage, slot), stage->unit_count - 1);
}

void stage_losses(struct stage *stage, unsigned slot, float *ret_losses)
{
    const struct activations *head = head_activations(stage, slot);

    /* If the device has failed, no losses arrive and NaN remains. */
    for (size_t i = 0; i < stage->rows; i++)
        ret_losses[i] = NAN;
    stage->kernel->download(stage->device, ret_losses, head->losses, stage->rows * sizeof(float));
}

double stage_losses_sum(const float *losses, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += (double)losses[i];
    return sum;
}

/* Do not wait for the other queues: they may have a snapshot, or a message to a busy stage, in
 * flight. */
static void wait_for_compute_queue(struct stage *stage)
{
    stage->kernel->event_record(stage->device, stage->computed, KERNEL_QUEUE_COMPUTE);
    stage->kernel->event_wait(stage->device, stage->computed);
}

double stage_loss_sum(struct stage *stage, unsigned slot)
{
    stage_losses(stage, slot, stage->host_losses);
    wait_for_compute_queue(stage);
    return stage_losses_sum(stage->host_losses, stage->rows);
}

/* Copy @count activations to the host in pieces of the scratch, which a backend without f32
 * activations needs for the conversion. */
static void download_values(struct stage *stage, const void *activations, size_t count,
                            float *ret_values)
{
    const struct kernel *kernel = stage->kernel;
    size_t room_bytes =
        stage->rows * stage_scratch_wide_width(&stage->spec) * kernel->activation_size;
    size_t room = room_bytes / BUFFER_ALIGN * BUFFER_ALIGN / sizeof(float), piece;

    assert(room > 0);
    for (size_t done = 0; done < count; done += piece) {
        piece = MIN(count - done, room);
        kernel->values(stage->device, stage->scratch_wide,
                       (const char *)activations + done * kernel->activation_size, piece);
        kernel->download(stage->device, ret_values + done, stage->scratch_wide,
                         piece * sizeof(float));
    }
}

/* Copy the row to the scratch first: kernels require an alignment that a row may not have. */
static void download_row(struct stage *stage, const void *stream, size_t row, float *ret_row)
{
    size_t width = stage->spec.width, size_bytes = width * stage->kernel->activation_size;

    stage->kernel->copy(stage->device, stage->scratch, (const char *)stream + row * size_bytes,
                        size_bytes);
    download_values(stage, stage->scratch, width, ret_row);
}

void stage_rows(struct stage *stage, unsigned slot, unsigned unit, unsigned count,
                float *ret_before, float *ret_after)
{
    unsigned index = unit - stage->first_unit;
    void *const *streams = stage_slot_of(stage, slot)->streams;
    size_t width = stage->spec.width, context = stage->spec.context;

    assert(unit >= stage->first_unit && index < stage->unit_count);
    assert(index >= stage->shared.frozen && stage->layouts[index].kind != UNIT_HEAD);
    for (unsigned i = 0; i < count; i++) {
        size_t sample = (size_t)i * stage->batch / count;
        size_t row = sample * context + (2 * (size_t)i + 1) * context / (2 * (size_t)count);
        download_row(stage, streams[index], row, ret_before + i * width);
        download_row(stage, streams[index + 1], row, ret_after + i * width);
    }
    wait_for_compute_queue(stage);
}

void stage_logits(struct stage *stage, unsigned slot, float *ret_logits)
{
    const struct activations *head = head_activations(stage, slot);
    const struct kernel *kernel = stage->kernel;
    size_t vocab = stage->spec.vocab, stride = model_logits_stride(&stage->spec);

    assert(!stage_slot_of(stage, slot)->kept); /* else the logits were replaced by their gradient */
    for (size_t row = 0; row < stage->rows; row++)
        download_values(stage, (const char *)head->logits + row * stride * kernel->activation_size,
                        vocab, ret_logits + row * vocab);
    /* A failure is sticky: the caller's next synchronize() returns it. */
    int status = kernel->synchronize(stage->device, NULL);
    (void)status;
}
