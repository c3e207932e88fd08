/*
 * How large a write is and how many are in flight: measured on the disk that checkpoints go to,
 * when it is used for the first time, and remembered beside them (io-tuning.json in the job's
 * folder).
 */
#pragma once

#include "checkpoint/io/io.h"

#define IO_TUNING_FILE_NAME   "io-tuning.json"
#define IO_TUNING_FROM_BYTES  ((uint64_t)256 << 20) /* of state: below there is nothing to gain */
#define IO_TUNING_GAIN_LEAST  0.1                   /* over the usual choice, lest noise decides */
#define IO_TUNING_CHOICES_MAX 8

struct io_tuning {
    size_t block_bytes;
    unsigned depth;
    double bytes_per_second; /* as it was measured; 0: not yet */
};

/** io_tuning_usual() - what is used without measuring */
struct io_tuning io_tuning_usual(void);

/** io_tuning_best() - of @measured, of which the usual one is the first */
struct io_tuning io_tuning_best(const struct io_tuning *measured, unsigned count);

/**
 * io_tune() - remembered for @folder and this backend, else measured now and remembered
 *
 * A folder that is not there is not made (folder_nearest()): then nothing is remembered.
 * Writes about 200 MB into a file that is removed again; on a slow disk as much as goes into a
 * second. Whoever comes while somebody else measures gets the usual choice, and so does everybody
 * when anything goes wrong: it never fails.
 */
struct io_tuning io_tune(const struct io *io, const char *folder);
