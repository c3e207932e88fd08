/*
 * The natural logarithm with the same bits on every machine. libm's has a variant with FMA and one
 * without, and may differ in the last place between releases; this function uses only operations
 * that IEEE 754 rounds in exactly one way (the build forbids contraction into FMA).
 */
#pragma once

/**
 * logarithm() - return the logarithm of a normal number to about one unit in the last place. 0
 * gives -infinity, infinity and NaN are returned unchanged, and a negative number gives NaN.
 */
double logarithm(double x);
