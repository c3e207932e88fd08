#include "model/net/generate.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/philox.h"
#include "model/net/stage.h"
#include "model/net/streams.h"

#define ROWS_LEAST 8 /* rows of the first stage */

struct candidate {
    int32_t token;
    float logit;
};

struct generator {
    const struct generate_options *options;
    struct model_spec spec; /* the model, with the stage's number of rows as its context */
    struct stage *stage;    /* the whole model, one sequence; NULL before the first token */
    size_t context;         /* the model's */
    int32_t *window; /* context tokens; those past `used` are padding that causality ignores */
    size_t used;
    float *logits;                /* (rows, V) */
    struct candidate *candidates; /* V */
};

static int check_options(const struct generate_options *options, struct error *error)
{
    if (options->prompt_count == 0)
        return error_set(error, -EINVAL, "the prompt is empty: at least one token is needed");
    if (!(options->temperature >= 0.0) || isinf(options->temperature))
        return error_set(error, -EINVAL, "temperature %g: 0 or more is needed",
                         options->temperature);
    for (size_t i = 0; i < options->prompt_count; i++)
        if (options->prompt[i] < 0 || (unsigned)options->prompt[i] >= options->spec->vocab)
            return error_set(error, -EINVAL,
                             "prompt token %d at %zu is outside the vocabulary (%u)",
                             options->prompt[i], i, options->spec->vocab);
    return 0;
}

static void generator_done(struct generator *generator)
{
    stage_free(generator->stage);
    free(generator->window);
    free(generator->logits);
    free(generator->candidates);
}

static int generator_init(struct generator *generator, const struct generate_options *options,
                          struct error *error)
{
    *generator = (struct generator){
        .options = options, .spec = *options->spec, .context = options->spec->context};
    generator->window = calloc(generator->context, sizeof(*generator->window));
    generator->candidates = calloc(options->spec->vocab, sizeof(*generator->candidates));
    if (!generator->window || !generator->candidates)
        return error_set(error, -ENOMEM, "no memory to generate with");

    generator->used = MIN(options->prompt_count, generator->context);
    memcpy(generator->window, options->prompt + options->prompt_count - generator->used,
           generator->used * sizeof(*generator->window));
    return 0;
}

/*
 * Make a stage for the used part of the window, doubled each time, so that unused rows are not
 * computed. With a shorter context all tensors of a model keep their offsets (positions are a
 * prefix of their table), so the weights remain valid. The number of rows depends only on `used`.
 */
static int make_room(struct generator *generator, struct error *error)
{
    const struct generate_options *options = generator->options;
    size_t rows = ROWS_LEAST, logit_count;
    const struct stage_options stage_options = {.kernel = options->kernel,
                                                .device = options->device,
                                                .spec = &generator->spec,
                                                .unit_count = model_unit_count(options->spec),
                                                .batch = 1,
                                                .slots = 1};

    while (rows < generator->used)
        rows *= 2;
    rows = MIN(rows, generator->context);
    if (generator->stage && rows == generator->spec.context)
        return 0;
    stage_free(generator->stage);
    generator->stage = NULL;
    free(generator->logits);
    generator->spec.context = (unsigned)rows;
    generator->logits = checked_multiply(rows, options->spec->vocab, &logit_count)
                            ? NULL
                            : calloc(logit_count, sizeof(*generator->logits));
    return !generator->logits ? error_set(error, -ENOMEM, "no memory for the logits")
                              : stage_new(&stage_options, &generator->stage, error);
}

static void push_token(struct generator *generator, int32_t token)
{
    if (generator->used == generator->context) {
        generator->used--;
        memmove(generator->window, generator->window + 1,
                generator->used * sizeof(*generator->window));
    }
    generator->window[generator->used++] = token;
}

/* Order by likelihood, then by token: a total order, so every sort gives the same result. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    if (left->logit != right->logit)
        return left->logit > right->logit ? -1 : 1;
    return (left->token > right->token) - (left->token < right->token);
}

/* Draw a uniform number in [0, 1): 53 bits of the block of this position. */
static double draw_uniform(uint64_t seed, uint64_t position)
{
    uint32_t words[4];
    philox_block(philox_key_make(seed, MODEL_STREAM_SAMPLE), position, 0, words);
    uint64_t bits = (uint64_t)words[0] << 32 | words[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static int32_t draw_token(struct generator *generator, const float *logits, uint64_t position)
{
    const struct generate_options *options = generator->options;
    struct candidate *candidates = generator->candidates;
    size_t vocab = options->spec->vocab;
    size_t count = options->top_k == 0 ? vocab : MIN((size_t)options->top_k, vocab);
    double sum = 0.0, target;

    for (size_t i = 0; i < vocab; i++)
        candidates[i] = (struct candidate){.token = (int32_t)i, .logit = logits[i]};
    qsort(candidates, vocab, sizeof(*candidates), compare_candidates);
    if (options->temperature == 0.0)
        return candidates[0].token;

    double top = (double)candidates[0].logit;
    for (size_t i = 0; i < count; i++)
        sum += exp(((double)candidates[i].logit - top) / options->temperature);
    target = draw_uniform(options->seed, position) * sum;
    for (size_t i = 0; i < count; i++) {
        target -= exp(((double)candidates[i].logit - top) / options->temperature);
        if (target < 0.0)
            return candidates[i].token;
    }
    return candidates[count - 1].token; /* a remainder of rounding */
}

static int next_token(struct generator *generator, uint64_t position, int32_t *ret_token,
                      struct error *error)
{
    const struct generate_options *options = generator->options;

    int status = make_room(generator, error);
    if (status < 0)
        return status;
    stage_forward(generator->stage, 0, options->weights, generator->window, NULL, false, 0.0f);
    stage_logits(generator->stage, 0, generator->logits);
    status = options->kernel->synchronize(options->device, error);
    if (status < 0)
        return status;

    const float *logits = generator->logits + (generator->used - 1) * options->spec->vocab;
    for (unsigned i = 0; i < options->spec->vocab; i++)
        if (isnan(logits[i]))
            return error_set(error, -EDOM, "the model predicts NaN: its parameters are damaged");
    *ret_token = draw_token(generator, logits, position);
    return 0;
}

int generate(const struct generate_options *options, generate_callback callback, void *context,
             struct error *error)
{
    struct generator generator;
    int status = check_options(options, error);
    if (status < 0)
        return status;

    status = generator_init(&generator, options, error);
    for (size_t i = 0; status == 0 && i < options->count; i++) {
        int32_t token = 0;
        status = next_token(&generator, i, &token, error);
        if (status < 0 || !callback(token, context))
            break;
        push_token(&generator, token);
    }
    generator_done(&generator);
    return status;
}
