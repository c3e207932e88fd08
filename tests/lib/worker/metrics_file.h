/* A metrics file for tests, in its own folder, and lines for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "worker/metrics/metrics.h"

extern char metrics_file_folder[64], metrics_file_path[96];
extern bool metrics_file_fails;

/** metrics_file_make_folder() - make the folder */
int metrics_file_make_folder(void **state);

/** metrics_file_remove_folder() - remove the folder and the file */
int metrics_file_remove_folder(void **state);

/** metrics_file_begin() - remove the file before a test */
int metrics_file_begin(void **state);

/** metrics_file_open() - open the metrics of the file, which must open */
struct metrics *metrics_file_open(void);

/** metrics_file_line() - make the line of @step */
struct metrics_line metrics_file_line(uint64_t step);

/** metrics_file_append() - append the lines of steps @first to @last */
void metrics_file_append(struct metrics *metrics, uint64_t first, uint64_t last);

/** metrics_file_read() - read the whole file */
void metrics_file_read(struct bytes *ret_text);

/* Check that the file holds exactly these steps, once each, in order. */
void metrics_file_check_steps(uint64_t first, uint64_t last);

/** metrics_file_fill_disk() - leave @spare_bytes for the file: a limit on its size stands for a
 * full disk */
void metrics_file_fill_disk(unsigned spare_bytes);

/** metrics_file_empty_disk() - lift the limit */
void metrics_file_empty_disk(void);

/** metrics_file_refuse() - append the line of @step, which the full disk refuses */
void metrics_file_refuse(struct metrics *metrics, uint64_t step);
