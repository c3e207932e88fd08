/*
 * Compute and link rates of a kind of slot, for the planner. Layouts depend on the ratios of
 * compute, optimizer and link rates. The relative speeds of slots of one kind are applied on top.
 *
 * The rates are rough constants until a node measures them. Each node measures one of its slots and
 * registers the result with two digits. The slots of a job are alike, so the best measurement of
 * any slot is the rate of all of them. A disturbance can only slow a measurement, so noise makes no
 * difference between nodes. A straggler is found by its step times (elastic/plan/straggler.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "elastic/job/job_training.h"

struct slot_rates {
    double flops_per_second;     /* of matrix products in a step */
    double updated_bytes_second; /* f32 parameters that AdamW updates */
    double link_bytes_per_second, link_latency_seconds;
    size_t activation_size; /* bytes per element; weights have the same type */
    bool host_memory;       /* the slot uses host memory, not device memory */
};

/* Measured rates of a slot; 0: not measured. */
struct slot_measured {
    double flops_per_second[JOB_PRECISIONS]; /* of one large matrix product */
    double memory_bytes_per_second;          /* of a copy, counting reads and writes */
    double link_bytes_per_second;            /* to another slot of its node */
};

/** slot_measured_raise() - raise each rate of @best to that of @other where @other is higher */
void slot_measured_raise(struct slot_measured *best, const struct slot_measured *other);

/**
 * slot_rates() - return the default rates of a CPU slot, or of a GPU that computes in @precision
 */
struct slot_rates slot_rates(bool gpu, enum job_precision precision);

/**
 * slot_rates_correct() - replace the rates that @measured has; the others stay unchanged
 * @one_node: all slots are on one node. Otherwise the network between nodes keeps the rate of
 * slot_rates(), or the rate of the link inside a node if that is slower.
 */
void slot_rates_correct(struct slot_rates *rates, enum job_precision precision,
                        const struct slot_measured *measured, bool one_node);
