/*
 * What a kind of slot computes with, how fast it is and what links such slots have, roughly: for
 * plans, before anything is measured. What decides is the proportion of computing, optimizer and
 * links; relative speeds of the slots of one kind come on top.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "elastic/job_spec.h"

struct slot_rates {
    double flops_per_second;     /* of matrix products in a step */
    double updated_bytes_second; /* f32 parameters that AdamW updates */
    double link_bytes_per_second, link_latency_seconds;
    size_t activation_size; /* bytes an element; weights have the same type */
};

/** slot_rates() - of a CPU slot, or of a GPU that computes in @precision */
struct slot_rates slot_rates(bool gpu, enum job_precision precision);
