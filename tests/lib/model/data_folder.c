#include "lib/model/data_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/base/test_folder.h"

struct dataset_options data_folder_options(const char *const *paths, unsigned path_count)
{
    return (struct dataset_options){.format = DATASET_BYTES,
                                    .paths = paths,
                                    .path_count = path_count,
                                    .context = 4,
                                    .vocab = 256,
                                    .seed = 7};
}

struct dataset *data_folder_open(const struct dataset_options *options)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    if (dataset_open(options, &dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

void data_folder_expect_failure(const struct dataset_options *options, int code, const char *text)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    assert_int_equal(dataset_open(options, &dataset, &error), code);
    assert_null(dataset);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

void data_folder_train(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                       int32_t *ret_tokens, int32_t *ret_targets)
{
    struct error error = {0};

    if (dataset_train_batch(dataset, first_sample, batch, ret_tokens, ret_targets, &error) < 0)
        fail_msg("%s", error.text);
}

void data_folder_validate(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                          int32_t *ret_tokens, int32_t *ret_targets)
{
    struct error error = {0};

    if (dataset_validation_batch(dataset, first_sample, batch, ret_tokens, ret_targets, &error) < 0)
        fail_msg("%s", error.text);
}
