/*
 * Choose the size of a write and the number of writes in flight: measured on the checkpoints' disk
 * at its first use, and saved in the job's folder (io-tuning.json).
 */
#pragma once

#include "checkpoint/io/io.h"

#define IO_TUNING_FILE_NAME   "io-tuning.json"
#define IO_TUNING_FROM_BYTES  ((uint64_t)256 << 20) /* of state: no gain below this */
#define IO_TUNING_GAIN_LEAST  0.1                   /* over the usual choice, against noise */
#define IO_TUNING_CHOICES_MAX 8

struct io_tuning {
    size_t block_bytes;
    unsigned depth;
    double bytes_per_second; /* as measured; 0: not measured */
};

/** io_tuning_usual() - return the choice without a measurement */
struct io_tuning io_tuning_usual(void);

/** io_tuning_best() - choose among @measured, of which the usual choice is the first */
struct io_tuning io_tuning_best(const struct io_tuning *measured, unsigned count);

/**
 * io_tune() - return the saved choice for @folder and this backend, else measure and save it
 *
 * A missing folder is not created (folder_nearest()); then nothing is saved.
 * Writes about 200 MB into a temporary file; on a slow disk only as much as a second allows. During
 * another worker's measurement, and after any error, it returns the usual choice: it never fails.
 */
struct io_tuning io_tune(const struct io *io, const char *folder);
