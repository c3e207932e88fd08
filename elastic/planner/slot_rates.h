/*
 * What a kind of slot computes with, how fast it is and what links such slots have, for plans. What
 * decides is the proportion of computing, optimizer and links; relative speeds of the slots of one
 * kind come on top.
 *
 * A kind's rates are rough constants until something is measured. Nodes measure a slot of theirs
 * and register two digits of it. The slots of a job are alike, so the best that was measured on any
 * of them is the rate of all: whatever disturbs a measurement only slows it, two nodes never differ
 * by noise, and a slot that is slow in truth is found by its steps (elastic/messages/straggler.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "elastic/job/job_spec.h"

struct slot_rates {
    double flops_per_second;     /* of matrix products in a step */
    double updated_bytes_second; /* f32 parameters that AdamW updates */
    double link_bytes_per_second, link_latency_seconds;
    size_t activation_size; /* bytes an element; weights have the same type */
    bool host_memory;       /* the slot's memory is its machine's, not a device's own */
};

/* What was measured of a slot; 0: it was not. */
struct slot_measured {
    double flops_per_second[JOB_PRECISIONS]; /* of one large matrix product */
    double memory_bytes_per_second;          /* of a copy: read and written */
    double link_bytes_per_second;            /* to another slot of its node */
};

/** slot_measured_raise() - @best becomes the better of both, number by number */
void slot_measured_raise(struct slot_measured *best, const struct slot_measured *other);

/** slot_rates() - of a CPU slot, or of a GPU that computes in @precision, as far as is known before
 * anything is measured */
struct slot_rates slot_rates(bool gpu, enum job_precision precision);

/** slot_rates_correct() - with what was measured of such slots; what was not stays
 * @one_node: all slots are of one node; else the network between nodes is believed to be as fast as
 * slot_rates() says, or as slow as the way inside a node */
void slot_rates_correct(struct slot_rates *rates, enum job_precision precision,
                        const struct slot_measured *measured, bool one_node);
