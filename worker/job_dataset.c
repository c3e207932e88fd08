#include "worker/job_dataset.h"

#include <errno.h>
#include <inttypes.h>

int job_dataset_open(const struct job_spec *spec, struct dataset **ret_dataset, struct error *error)
{
    static const enum dataset_format formats[] = {
        [JOB_FORMAT_BYTES] = DATASET_BYTES,
        [JOB_FORMAT_LLMC] = DATASET_LLMC,
        [JOB_FORMAT_UINT16] = DATASET_UINT16,
        [JOB_FORMAT_UINT32] = DATASET_UINT32,
    };
    const char *paths[JOB_PATHS_MAX];
    const struct dataset_options options = {
        .format = formats[spec->data.format],
        .paths = paths,
        .path_count = spec->data.path_count,
        .validation_path = spec->data.validation_path[0] ? spec->data.validation_path : NULL,
        .validation_share = spec->data.validation_share,
        .context = spec->model.context,
        .vocab = spec->model.vocab,
        .seed = spec->train.seed,
    };
    int status;

    for (unsigned i = 0; i < spec->data.path_count; i++)
        paths[i] = spec->data.paths[i];
    status = dataset_open(&options, ret_dataset, error);
    if (!status && spec->evaluate.every && dataset_validation_count(*ret_dataset) == 0) {
        dataset_close(*ret_dataset);
        status = error_set(error, -ENODATA,
                           "evaluate.every is %" PRIu64
                           " but no validation data is left: raise data.validation or "
                           "give it a path",
                           spec->evaluate.every);
    }
    return status;
}
