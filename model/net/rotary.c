#include "model/net/rotary.h"

/* Half of pi in two parts. The first has 33 bits, so its product with a number of quarter turns
 * below 2^20 is exact. */
#define HALF_PI_HIGH 1.57079632673412561417e+00
#define HALF_PI_LOW  6.07710050650619224932e-11
#define HALF_PI      1.57079632679489661923

static double power(double base, unsigned exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

/* Return the number in (0, 1] whose @exponent-th power is 1 / @theta, by bisection to the last bit.
 */
static double inverse_root(double theta, unsigned exponent)
{
    double low = 0.0, high = 1.0;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            return high;
        if (power(middle, exponent) * theta < 1.0)
            low = middle;
        else
            high = middle;
    }
}

/* Scale a frequency as Llama 3.1 does: by the number of turns of its wave in the original context.
 * Between the two numbers of turns the unscaled share rises linearly from 0 to 1. */
static double llama3_frequency(const struct model_rope_scaling *scaling, double frequency)
{
    double low = scaling->low_frequency_factor, high = scaling->high_frequency_factor;
    double turns = (double)scaling->original_context * frequency / (4 * HALF_PI);
    double stays = (turns - low) / (high - low);

    if (turns < low)
        stays = 0.0;
    if (turns > high)
        stays = 1.0;
    return (1.0 - stays) * frequency / scaling->factor + stays * frequency;
}

static double scaled_frequency(const struct model_rope_scaling *scaling, double frequency)
{
    switch (scaling->type) {
    case MODEL_ROPE_PLAIN:
        break;
    case MODEL_ROPE_LINEAR:
        return frequency / scaling->factor;
    case MODEL_ROPE_LLAMA3:
        return llama3_frequency(scaling, frequency);
    }
    return frequency;
}

/* Add a Taylor series on [-pi/4, pi/4] from the smallest term; the omitted terms are below
 * 1e-17. */
static double series(double square, int last)
{
    double sum = 1.0;
    for (int n = last; n >= 2; n -= 2)
        sum = 1.0 - square / (double)(n * (n - 1)) * sum;
    return sum;
}

static void sine_and_cosine(double angle, double *ret_sine, double *ret_cosine)
{
    long quarters = (long)(angle / HALF_PI + 0.5); /* angles are not negative */
    double rest = angle - (double)quarters * HALF_PI_HIGH - (double)quarters * HALF_PI_LOW;
    double sine = rest * series(rest * rest, 17), cosine = series(rest * rest, 16);
    double turned_sine = quarters % 2 == 0 ? sine : cosine;
    double turned_cosine = quarters % 2 == 0 ? cosine : -sine;

    *ret_sine = quarters % 4 < 2 ? turned_sine : -turned_sine;
    *ret_cosine = quarters % 4 < 2 ? turned_cosine : -turned_cosine;
}

void rotary_angles(const struct model_spec *spec, float *ret_angles)
{
    size_t half = spec->head_width / 2;
    double root = inverse_root(spec->rope_theta, spec->head_width / 2);

    for (size_t pair = 0; pair < half; pair++) {
        float plain = (float)power(root, (unsigned)pair);
        float frequency = (float)scaled_frequency(&spec->rope_scaling, (double)plain);
        for (size_t position = 0; position < spec->context; position++) {
            float *row = ret_angles + position * 2 * half;
            double sine, cosine;
            sine_and_cosine((double)((float)position * frequency), &sine, &cosine);
            row[pair] = (float)cosine;
            row[half + pair] = (float)sine;
        }
    }
}
