#include "worker/step/job_dataset.h"

#include <errno.h>
#include <inttypes.h>

#define USUAL_BATCHES 8u
#define CHEAP_SHARE   10u      /* at most 1/10 of the micro-batches trained meanwhile */
#define BATCHES_MAX   1000000u /* limit of evaluate.batches */

static void list_paths(const struct job_paths *paths, const char **ret_list)
{
    for (unsigned i = 0; i < paths->count; i++)
        ret_list[i] = paths->paths[i];
}

static uint64_t validation_batches(const struct job_training *training,
                                   const struct dataset *dataset)
{
    uint64_t samples = dataset_validation_count(dataset);

    return (samples + training->micro_batch - 1) / training->micro_batch;
}

unsigned job_dataset_validation_batches(const struct job_evaluation *evaluation,
                                        const struct job_training *training,
                                        const struct dataset *dataset)
{
    uint64_t all = validation_batches(training, dataset);
    uint64_t step = (uint64_t)training->lanes * training->micro_batches_per_lane;
    uint64_t cheap = MAX(evaluation->every * step / CHEAP_SHARE, (uint64_t)USUAL_BATCHES);

    if (evaluation->batches == JOB_BATCHES_ALL)
        return (unsigned)MIN(all, (uint64_t)BATCHES_MAX);
    if (evaluation->batches == JOB_BATCHES_AUTO)
        return (unsigned)(all <= MIN(cheap, (uint64_t)BATCHES_MAX) ? all : USUAL_BATCHES);
    return evaluation->batches;
}

/* Refuse more batches than the data has: a token read twice would count twice. */
static int check_batches(const struct job_evaluation *evaluation,
                         const struct job_training *training, const struct dataset *dataset,
                         struct error *error)
{
    uint64_t all = validation_batches(training, dataset);

    if (evaluation->batches == JOB_BATCHES_ALL && all > BATCHES_MAX)
        return error_set(error, -E2BIG,
                         "evaluate.batches is all, but the validation data has %" PRIu64
                         " micro-batches; at most %u can be read in one evaluation",
                         all, BATCHES_MAX);
    if (job_dataset_validation_batches(evaluation, training, dataset) <= all)
        return 0;
    return error_set(error, -ENODATA,
                     "evaluate.batches is %u, but the validation data has only %" PRIu64
                     " samples, which are %" PRIu64 " micro-batches of %u: say evaluate.batches: "
                     "all, or raise data.validation",
                     evaluation->batches, dataset_validation_count(dataset), all,
                     training->micro_batch);
}

static int check_evaluation(const struct job_evaluation *evaluation,
                            const struct job_training *training, const struct dataset *dataset,
                            struct error *error)
{
    if (dataset_validation_count(dataset) == 0)
        return error_set(error, -ENODATA,
                         "evaluate.every is %" PRIu64
                         " but no validation data is left: raise data.validation or "
                         "give it a path",
                         evaluation->every);
    int status = check_batches(evaluation, training, dataset, error);
    if (status)
        return status;
    if (job_dataset_validation_counted(evaluation, training, dataset) == 0)
        return error_set(error, -ENODATA,
                         "evaluate.every is %" PRIu64
                         " but none of the tokens that an evaluation reads counts in the loss: "
                         "raise evaluate.batches, or look at the mask",
                         evaluation->every);
    return 0;
}

int job_dataset_open(const struct job_spec *spec, const char *memo_folder,
                     const struct dataset_listener *listener, struct dataset **ret_dataset,
                     struct error *error)
{
    static const enum dataset_format formats[] = {
        [JOB_FORMAT_BYTES] = DATASET_BYTES,
        [JOB_FORMAT_LLMC] = DATASET_LLMC,
        [JOB_FORMAT_UINT16] = DATASET_UINT16,
        [JOB_FORMAT_UINT32] = DATASET_UINT32,
    };
    const char *paths[JOB_PATHS_MAX], *mask_paths[JOB_PATHS_MAX];
    const struct dataset_options options = {
        .format = formats[spec->data.format],
        .paths = paths,
        .path_count = spec->data.path.count,
        .validation_path = spec->data.validation_path[0] ? spec->data.validation_path : NULL,
        .validation_share = spec->data.validation_share,
        .mask_paths = mask_paths,
        .mask_path_count = spec->data.mask.count,
        .validation_mask_path = spec->data.validation_mask[0] ? spec->data.validation_mask : NULL,
        .context = spec->model.context,
        .vocab = spec->model.vocab,
        .seed = spec->train.seed,
        .memo_folder = memo_folder,
        .listener = listener ? *listener : (struct dataset_listener){0},
    };
    struct dataset *dataset = NULL;
    int status;

    list_paths(&spec->data.path, paths);
    list_paths(&spec->data.mask, mask_paths);
    status = dataset_open(&options, &dataset, error);
    if (!status && spec->evaluate.every)
        status = check_evaluation(&spec->evaluate, &spec->train, dataset, error);
    if (status)
        dataset_close(dataset);
    else
        *ret_dataset = dataset;
    return status;
}

static uint64_t samples_per_step(const struct job_training *training)
{
    return (uint64_t)training->lanes * training->micro_batches_per_lane * training->micro_batch;
}

bool job_dataset_repeats(const struct job_training *training, const struct dataset *dataset,
                         uint64_t position)
{
    uint64_t count = dataset_train_count(dataset);

    return (position / count + 1) * count < training->steps * samples_per_step(training);
}

uint64_t job_dataset_counted(const struct job_training *training, const struct dataset *dataset,
                             uint64_t step)
{
    assert(step > 0);
    return dataset_train_counted(dataset, (step - 1) * samples_per_step(training),
                                 samples_per_step(training));
}

uint64_t job_dataset_validation_counted(const struct job_evaluation *evaluation,
                                        const struct job_training *training,
                                        const struct dataset *dataset)
{
    return dataset_validation_counted(
        dataset, 0,
        (uint64_t)job_dataset_validation_batches(evaluation, training, dataset) *
            training->micro_batch);
}
