#include "base/logarithm.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 1 / (2k + 1): the series of artanh(s) / s in s^2 */
static const double coefficients[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                      1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
#define LAST 10

/* x = m 2^e with m in (sqrt(1/2), sqrt(2)] */
static double split(double x, int *ret_exponent)
{
    uint64_t word;
    double m;

    memcpy(&word, &x, sizeof(word));
    *ret_exponent = (int)(word >> 52) - 1023;
    word = (word & 0xFFFFFFFFFFFFFull) | (uint64_t)1023 << 52;
    memcpy(&m, &word, sizeof(m));
    if (m > M_SQRT2) {
        m /= 2;
        ++*ret_exponent;
    }
    return m;
}

double logarithm(double x)
{
    int exponent;

    if (!(x > 0) || isinf(x))
        return x == 0 ? -INFINITY : x < 0 ? (double)NAN : x;
    double m = split(x, &exponent);
    /* ln m = 2 artanh s, and s^2 <= 0.0295: eleven terms give full double precision. */
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = LAST; k >= 0; k--)
        sum = sum * s2 + coefficients[k];
    return exponent * M_LN2 + 2 * s * sum;
}
