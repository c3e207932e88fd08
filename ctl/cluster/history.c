#include "ctl/cluster/history.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

void history_done(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        free(history->steps[i].line);
    free(history->steps);
    *history = (struct history){0};
}

/* Read a number; JSON has no NaN, so a diverged value is null, with its bits in another key. */
static int get_real(const json_t *tree, const char *key, double *ret_value, struct error *error)
{
    if (json_is_null(json_object_get(tree, key))) {
        *ret_value = NAN;
        return 0;
    }
    return json_get_double(tree, key, ret_value, error);
}

static int get_reals(const json_t *tree, struct history_step *step, struct error *error)
{
    const struct {
        const char *key;
        double *value;
    } reals[] = {{"loss", &step->loss},
                 {"grad_norm", &step->grad_norm},
                 {"lr", &step->lr},
                 {"step_ms", &step->step_ms}};
    int status = 0;

    for (size_t i = 0; i < ARRAY_COUNT(reals) && !status; i++)
        status = get_real(tree, reals[i].key, reals[i].value, error);
    return status;
}

static int get_counts(const json_t *tree, struct history_step *step, struct error *error)
{
    const struct {
        const char *key;
        uint64_t *value;
    } counts[] = {{"step", &step->step},
                  {"generation", &step->generation},
                  {"tokens", &step->tokens},
                  {"unix_ns", &step->unix_ns}};
    const struct {
        const char *key;
        unsigned *value;
    } sizes[] = {{"frozen_layers", &step->frozen_layers},
                 {"stages", &step->stages},
                 {"replicas", &step->replicas},
                 {"workers", &step->workers}};
    int status = 0;

    for (size_t i = 0; i < ARRAY_COUNT(counts) && !status; i++)
        status = json_get_u64(tree, counts[i].key, INT64_MAX, counts[i].value, error);
    for (size_t i = 0; i < ARRAY_COUNT(sizes) && !status; i++)
        status = json_get_unsigned(tree, sizes[i].key, UINT32_MAX, sizes[i].value, error);
    return status;
}

/* Read the counts of loaded outputs, present only if outputs of frozen layers are kept. */
static int get_frozen(const json_t *tree, struct history_step *step, struct error *error)
{
    step->frozen_loaded = step->frozen_computed = 0;
    if (!json_has(tree, "frozen_loaded"))
        return 0;
    int status = json_get_u64(tree, "frozen_loaded", INT64_MAX, &step->frozen_loaded, error);
    return status ? status
                  : json_get_u64(tree, "frozen_computed", INT64_MAX, &step->frozen_computed, error);
}

static int get_final(const json_t *tree, struct history_step *step, struct error *error)
{
    step->final_evaluated = json_has(tree, "final_val_loss_bits");
    step->final_loss = NAN;
    if (!step->final_evaluated)
        return 0;
    int status = json_get_text(tree, "final_val_loss_bits", step->final_bits,
                               sizeof(step->final_bits), error);
    return status ? status : get_real(tree, "final_val_loss", &step->final_loss, error);
}

static int get_bits(const json_t *tree, struct history_step *step, struct error *error)
{
    int status = json_get_text(tree, "loss_bits", step->loss_bits, sizeof(step->loss_bits), error);

    if (!status)
        status = json_get_text(tree, "grad_norm_bits", step->grad_norm_bits,
                               sizeof(step->grad_norm_bits), error);
    step->evaluated = json_has(tree, "val_loss_bits");
    step->val_loss = NAN;
    if (!status && step->evaluated)
        status = json_get_text(tree, "val_loss_bits", step->val_loss_bits,
                               sizeof(step->val_loss_bits), error);
    if (!status && step->evaluated)
        status = get_real(tree, "val_loss", &step->val_loss, error);
    return status ? status : get_final(tree, step, error);
}

static int parse_line(const char *line, size_t length, struct history_step *ret_step,
                      struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    int status = json_parse(line, length, "a metrics line", &tree, error);

    if (!status)
        status = get_counts(tree, ret_step, error);
    if (!status)
        status = get_frozen(tree, ret_step, error);
    if (!status)
        status = get_reals(tree, ret_step, error);
    if (!status)
        status = get_bits(tree, ret_step, error);
    return status == -EINVAL ? -EBADMSG : status;
}

size_t history_find(const struct history *history, uint64_t step)
{
    size_t low = 0, high = history->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history->steps[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool exact_equal(const struct history_step *a, const struct history_step *b)
{
    return !strcmp(a->loss_bits, b->loss_bits) && !strcmp(a->grad_norm_bits, b->grad_norm_bits) &&
           a->frozen_layers == b->frozen_layers &&
           (!a->evaluated || !b->evaluated || !strcmp(a->val_loss_bits, b->val_loss_bits)) &&
           (!a->final_evaluated || !b->final_evaluated || !strcmp(a->final_bits, b->final_bits));
}

static void note_conflict(struct history *history, const struct history_step *known,
                          const struct history_step *other)
{
    char a[HISTORY_EXACT_SIZE], b[HISTORY_EXACT_SIZE];

    if (!history->conflict.code)
        error_set(&history->conflict, -EILSEQ,
                  "step %" PRIu64 " is not the same on all nodes: exactness is broken\n"
                  "  %s: %s %s\n  %s: %s %s",
                  known->step, known->node, history_exact(known, a), known->val_loss_bits,
                  other->node, history_exact(other, b), other->val_loss_bits);
}

static int insert(struct history *history, size_t at, const struct history_step *step,
                  const char *line, size_t length)
{
    if (history->count == history->capacity) {
        size_t capacity = history->capacity ? 2 * history->capacity : 256;
        struct history_step *steps = reallocarray(history->steps, capacity, sizeof(*steps));
        if (!steps)
            return -ENOMEM;
        history->steps = steps;
        history->capacity = capacity;
    }
    char *copy = strndup(line, length);
    if (!copy)
        return -ENOMEM;
    struct history_step *place = &history->steps[at];
    memmove(place + 1, place, (history->count - at) * sizeof(*place));
    *place = *step;
    place->line = copy;
    history->count++;
    return 0;
}

/* Return whether a line is better: with the final evaluation, or of the first commit of the step.
 */
static bool knows_more(const struct history_step *step, const struct history_step *known)
{
    if (step->final_evaluated != known->final_evaluated)
        return step->final_evaluated;
    return step->generation < known->generation;
}

static int replace(struct history_step *known, const struct history_step *step, const char *line,
                   size_t length)
{
    char *copy = strndup(line, length);

    if (!copy)
        return -ENOMEM;
    free(known->line);
    *known = *step;
    known->line = copy;
    return 0;
}

static int add_line(struct history *history, const char *node, const char *line, size_t length,
                    uint64_t *last_step, struct error *error)
{
    struct history_step step = {0};
    int status = parse_line(line, length, &step, error);

    if (status)
        return status;
    snprintf(step.node, sizeof(step.node), "%s", node);
    *last_step = MAX(*last_step, step.step);
    if (step.step < history->next)
        return 0;
    size_t at = history_find(history, step.step);
    if (at == history->count || history->steps[at].step != step.step)
        return insert(history, at, &step, line, length);
    if (!exact_equal(&history->steps[at], &step))
        note_conflict(history, &history->steps[at], &step);
    else if (knows_more(&step, &history->steps[at]))
        return replace(&history->steps[at], &step, line, length);
    return 0;
}

int history_add(struct history *history, const char *node, const char *text, size_t size_bytes,
                uint64_t *ret_last_step, struct error *error)
{
    const char *end;
    uint64_t last_step = 0;
    int status = 0;

    for (size_t at = 0;
         !status && at < size_bytes && (end = memchr(text + at, '\n', size_bytes - at));) {
        size_t length = (size_t)(end - (text + at));
        status = add_line(history, node, text + at, length, &last_step, error);
        at += length + 1;
    }
    if (status == -EBADMSG)
        error_prefix(error, "metrics of node %s: ", node);
    if (ret_last_step)
        *ret_last_step = last_step;
    return status;
}

int history_hand_out(struct history *history, uint64_t end,
                     int (*take)(void *context, const struct history_step *step), void *context)
{
    size_t count = history_find(history, end), done = 0;
    int status = 0;

    for (; done < count && !status; done++) {
        status = take(context, &history->steps[done]);
        history->next = history->steps[done].step + 1;
        free(history->steps[done].line);
    }
    history->count -= done;
    if (done)
        memmove(history->steps, history->steps + done, history->count * sizeof(*history->steps));
    return status;
}

const char *history_exact(const struct history_step *step, char text[HISTORY_EXACT_SIZE])
{
    snprintf(text, HISTORY_EXACT_SIZE, "%" PRIu64 " %s %s %u", step->step, step->loss_bits,
             step->grad_norm_bits, step->frozen_layers);
    return text;
}

const char *history_exact_json(const struct history_step *step, char text[HISTORY_EXACT_SIZE])
{
    snprintf(text, HISTORY_EXACT_SIZE,
             "{\"step\": %" PRIu64
             ", \"loss_bits\": \"%s\", \"grad_norm_bits\": \"%s\", \"frozen_layers\": %u}",
             step->step, step->loss_bits, step->grad_norm_bits, step->frozen_layers);
    return text;
}
