/*
 * A job that began with a model's folder (`model.from`) hands on, in each of its checkpoints, that
 * folder's files beside the parameters, and what its config.json says and a job does not decide.
 *
 * They come from the newest checkpoint before this one, else from the checkpoint that this worker
 * was restored from, else from the folder of model.from itself: so they stay when that folder has
 * changed or gone.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "elastic/job/job_spec.h"

struct source_files {
    const json_t *spec;       /* the job, encoded */
    const char *checkpoints;  /* the job's checkpoint folder */
    const char *restored;     /* the checkpoint that the job goes on from; "": none */
    uint64_t step;            /* of the checkpoint that is being made */
    const char *part;         /* its folder */
    const json_t *own_config; /* huggingface_config() of the job */
};

/**
 * source_files_take() - copy the files into @files->part and make its config.json
 * @manifest: lists the files afterwards; not sealed yet
 * @ret_config: a new reference; only with 0
 * @ret_left_out: why a file of the source is not among them; "": all are (COMPANIONS_WORDS bytes)
 *
 * Return: 0; 1: the job did not begin with a folder; negative: nothing of it could be read, the
 * checkpoint is as good without it
 */
int source_files_take(const struct source_files *files, struct manifest *manifest,
                      json_t **ret_config, char *ret_left_out, struct error *error) CHECK_RESULT;
