/*
 * The cost of a model's units by their sizes alone, without a measurement and the same for every
 * device.
 */
#pragma once

#include "elastic/job/job_model.h"

/* Columns of a sublayer's rows: after the first product, and before the last one
 * (model/net/unit.h). */
struct job_unit_widths {
    double wide, mixed;
};

/** job_unit_widths() - return the widths of @unit, an attention or MLP unit */
struct job_unit_widths job_unit_widths(const struct job_model *model, unsigned unit);

/** job_unit_forward_flops() - return the multiplications and additions of the matrix products of
 * one forward of @unit for @tokens tokens; a backward has twice as many */
double job_unit_forward_flops(const struct job_model *model, unsigned unit, double tokens);

/** job_model_step_share() - return the matrix products of a training step with @frozen_layers, as a
 * fraction of those without: forward of all units, backward of the trained ones */
double job_model_step_share(const struct job_model *model, unsigned frozen_layers);
