/* The angles of the rotary position embedding. */
#pragma once

#include "model/net/spec.h"

/**
 * rotary_angles() - compute the angles for kernel->rotary_forward(): for each position the cosines
 * of D/2 angles, then their sines, with D = head_width
 * @ret_angles: host memory, context * head_width f32
 *
 * The angle of pair c at position t is t theta^(-2c/D), or t times that frequency after
 * rope_scaling: frequency and angle are rounded to f32, as Hugging Face's Llama does. They are
 * computed only with additions, multiplications and divisions: pow(), sin() and cos() differ in the
 * last bit between C libraries, and all nodes must have the same angles.
 */
void rotary_angles(const struct model_spec *spec, float *ret_angles);
