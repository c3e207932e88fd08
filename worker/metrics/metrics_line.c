#include "worker/metrics/metrics_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/bits.h"

struct exact metrics_line_exact(const struct metrics_line *line)
{
    struct exact exact = {
        .step = line->step, .frozen_layers = line->frozen_layers, .generation = line->generation};

    bits64_text(line->loss, exact.loss_bits);
    bits64_text(line->grad_norm, exact.grad_norm_bits);
    return exact;
}

/* JSON has no NaN: a diverged loss is null beside its exact bits. */
static const char *number_text(double value, char *text, size_t size)
{
    if (isfinite(value))
        snprintf(text, size, "%.9g", value);
    else
        snprintf(text, size, "null");
    return text;
}

/* "slowest": for each stage its slowest worker, and the lane times of it and of the fastest. */
static int append_slowest(const struct metrics_line *line, struct bytes *into)
{
    const struct plan *plan = line->plan;
    int status = bytes_append_format(into, ",\"slowest\":[");

    for (unsigned stage = 0; !status && stage < plan->layout.stage_count; stage++) {
        const struct straggler_stage *slowest = &line->slowest[stage];
        const struct plan_worker *worker = &plan->layout.workers[slowest->rank];
        status = bytes_append_format(
            into, "%s{\"worker\":\"%s/%u\",\"lane_ms\":%.3f,\"fastest_ms\":%.3f}", stage ? "," : "",
            worker->node, worker->slot, (double)slowest->lane_ns / 1e6,
            (double)slowest->fastest_ns / 1e6);
    }
    return status ? status : bytes_append_format(into, "]");
}

static int append_final(double loss, struct bytes *into)
{
    char text[32], bits[BITS64_TEXT_SIZE];

    bits64_text(loss, bits);
    return bytes_append_format(into, ",\"final_val_loss\":%s,\"final_val_loss_bits\":\"%s\"",
                               number_text(loss, text, sizeof(text)), bits);
}

int metrics_line_format(const struct metrics_line *line, struct bytes *into)
{
    const struct exact exact = metrics_line_exact(line);
    char loss[32], norm[32], val_loss[32], val_bits[BITS64_TEXT_SIZE], evaluated[96] = "";
    size_t size_before = into->size_bytes;

    if (line->evaluated) {
        bits64_text(line->val_loss, val_bits);
        snprintf(evaluated, sizeof(evaluated), ",\"val_loss\":%s,\"val_loss_bits\":\"%s\"",
                 number_text(line->val_loss, val_loss, sizeof(val_loss)), val_bits);
    }
    int status = bytes_append_format(
        into,
        "{\"job\":\"%s\",\"step\":%" PRIu64 ",\"loss\":%s,\"loss_bits\":\"%s\",\"grad_norm\":%s,"
        "\"grad_norm_bits\":\"%s\",\"lr\":%.9g,\"frozen_layers\":%u,\"generation\":%" PRIu64
        ",\"stages\":%u,\"replicas\":%u,\"workers\":%u,\"tokens\":%" PRIu64
        ",\"step_ms\":%.3f,\"unix_ns\":%" PRIu64 "%s",
        line->job, line->step, number_text(line->loss, loss, sizeof(loss)), exact.loss_bits,
        number_text(line->grad_norm, norm, sizeof(norm)), exact.grad_norm_bits, line->lr,
        line->frozen_layers, line->generation, line->stages, line->replicas, line->workers,
        line->tokens, line->step_ms, line->unix_ns, evaluated);
    if (!status && line->plasticity > 0)
        status = bytes_append_format(into, ",\"plasticity\":%.9g", line->plasticity);
    if (!status && line->final_evaluated)
        status = append_final(line->final_loss, into);
    if (!status && line->masked)
        status = bytes_append_format(into, ",\"counted\":%" PRIu64, line->counted);
    if (!status && line->frozen_loaded + line->frozen_computed > 0)
        status =
            bytes_append_format(into, ",\"frozen_loaded\":%" PRIu64 ",\"frozen_computed\":%" PRIu64,
                                line->frozen_loaded, line->frozen_computed);
    if (!status && line->slowest)
        status = append_slowest(line, into);
    if (!status)
        status = bytes_append_format(into, "}\n");
    if (status) /* remove the partial text */
        into->size_bytes = size_before;
    return status;
}
