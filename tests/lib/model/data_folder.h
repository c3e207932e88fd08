/*
 * A folder with files of tokens, made for each test and removed after it, and data sets of these
 * files.
 */
#pragma once

#include "model/data/dataset.h"

/** data_folder_options() - make the options of a data set of bytes */
struct dataset_options data_folder_options(const char *const *paths, unsigned path_count);

/** data_folder_open() - open a data set, which must open */
struct dataset *data_folder_open(const struct dataset_options *options);

/** data_folder_expect_failure() - check that a data set fails to open with @code and a text that
 * has @text */
void data_folder_expect_failure(const struct dataset_options *options, int code, const char *text);

/** data_folder_train(), data_folder_validate() - read a batch, which must be readable */
void data_folder_train(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                       int32_t *ret_tokens, int32_t *ret_targets);
void data_folder_validate(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                          int32_t *ret_tokens, int32_t *ret_targets);
