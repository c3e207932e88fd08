/*
 * A folder with files of tokens, made for each test and removed after it, and data sets of what is
 * in it.
 */
#pragma once

#include "unit/base/test_folder.h"

#include "model/data/dataset.h"

static inline struct dataset_options options_of(const char *const *paths, unsigned path_count)
{
    return (struct dataset_options){.format = DATASET_BYTES,
                                    .paths = paths,
                                    .path_count = path_count,
                                    .context = 4,
                                    .vocab = 256,
                                    .seed = 7};
}

static inline struct dataset *open_dataset(const struct dataset_options *options)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    if (dataset_open(options, &dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

static inline void expect_failure(const struct dataset_options *options, int code, const char *text)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    assert_int_equal(dataset_open(options, &dataset, &error), code);
    assert_null(dataset);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}
