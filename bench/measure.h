/*
 * What every benchmark needs: samples and their quantiles, and a result that is printed for people
 * and written as JSON for programs.
 *
 * The machines are shared and noisy, so a benchmark interleaves what it compares, takes many rounds
 * and reports medians and their ratio. A number from one run is compared with numbers of that run
 * only. The JSON says when, on what processor and under what load it was made.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define SAMPLES_MAX 4096

struct samples {
    double values[SAMPLES_MAX]; /* seconds, or whatever is measured */
    unsigned count;
};

/** samples_add() - values beyond SAMPLES_MAX are left out */
void samples_add(struct samples *samples, double value);
/** samples_quantile() - 0 <= @share <= 1, the value at that rank; 0 without samples */
double samples_quantile(const struct samples *samples, double share);
double samples_median(const struct samples *samples);
double samples_mean(const struct samples *samples);

/** measure_now() - seconds of the monotonic clock */
double measure_now(void);

/** measure_cpu() - processor seconds of this process, all threads: what a busy machine cannot
 * stretch */
double measure_cpu(void);

/** measure_option() - the text after @name ("--rounds") among the arguments, or @otherwise */
const char *measure_option(int argc, char **argv, const char *name, const char *otherwise);
/** measure_count() - the same as a number of at least 1; ends the process on anything else */
unsigned measure_count(int argc, char **argv, const char *name, unsigned otherwise);

struct measure;

/**
 * measure_begin() - a result of benchmark @name; prints what is measured and the command
 * @what: one sentence: what is measured and beside what
 */
struct measure *measure_begin(const char *name, const char *what, int argc, char **argv);
/** measure_number() - one figure of the JSON */
void measure_number(struct measure *measure, const char *key, double value);
void measure_text(struct measure *measure, const char *key, const char *text);
/** measure_samples() - median, 10th and 90th percentile and how many, below one key */
void measure_samples(struct measure *measure, const char *key, const struct samples *samples);
/**
 * measure_end() - write <folder>/<name>.json and free the result
 *
 * The folder is that of the environment's FIRN_BENCH_OUT, else build/bench; it is made when it is
 * not there. Return: what main() returns: 0, or 1 when the file cannot be written.
 */
int measure_end(struct measure *measure);

/** measure_die() - print why the benchmark cannot go on and end the process */
void measure_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
