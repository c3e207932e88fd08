/*
 * Common parts of all benchmarks: samples and their quantiles, and a result that is printed as text
 * and written as JSON.
 *
 * The machines are shared and noisy, so a benchmark interleaves the variants that it compares,
 * takes many rounds and reports medians and their ratio. Compare a number only with numbers of the
 * same run. The JSON names the time, the processor and the load of the run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define SAMPLES_MAX 4096

struct samples {
    double values[SAMPLES_MAX]; /* seconds, or another unit */
    unsigned count;
};

/** samples_add() - add a value; ignore values beyond SAMPLES_MAX */
void samples_add(struct samples *samples, double value);
/** samples_quantile() - return the value at rank @share, 0 <= @share <= 1; 0 without samples */
double samples_quantile(const struct samples *samples, double share);
double samples_median(const struct samples *samples);
double samples_mean(const struct samples *samples);

/** measure_now() - return the seconds of the monotonic clock */
double measure_now(void);

/** measure_cpu() - return the processor seconds of this process, all threads; a busy machine does
 * not stretch them */
double measure_cpu(void);

/** measure_option() - return the text after @name ("--rounds") among the arguments, or @otherwise
 */
const char *measure_option(int argc, char **argv, const char *name, const char *otherwise);
/** measure_count() - return the option as a number of at least 1; end the process on any other text
 */
unsigned measure_count(int argc, char **argv, const char *name, unsigned otherwise);

struct measure;

/**
 * measure_begin() - begin the result of benchmark @name; print @what and the command
 * @what: one sentence: the measured quantity and its reference
 */
struct measure *measure_begin(const char *name, const char *what, int argc, char **argv);
/** measure_number() - add one number to the JSON */
void measure_number(struct measure *measure, const char *key, double value);
void measure_text(struct measure *measure, const char *key, const char *text);
/** measure_samples() - add median, 10th and 90th percentile and the count, below one key */
void measure_samples(struct measure *measure, const char *key, const struct samples *samples);
/**
 * measure_end() - write <folder>/<name>.json and free the result
 *
 * The folder is FIRN_BENCH_OUT of the environment, else build/bench; a missing folder is created.
 * Return: the exit status for main(): 0, or 1 if the file cannot be written.
 */
int measure_end(struct measure *measure);

/** measure_die() - print why the benchmark cannot continue, and end the process */
void measure_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
