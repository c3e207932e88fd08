/*
 * The natural logarithm with the same bits on every machine. libm's has a variant with FMA and one
 * without, and may differ in the last place between releases; this one is made of operations that
 * IEEE 754 rounds in exactly one way (the build forbids contraction into FMA).
 */
#pragma once

/** logarithm() - of a normal number, to about one unit in the last place; that of 0 is -infinity;
 * infinity and NaN stay what they are, and what is below 0 gives NaN */
double logarithm(double x);
