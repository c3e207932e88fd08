/*
 * Files of a model folder in checkpoints: a job that began from such a folder (`model.from`) copies
 * the folder's files other than parameters into each checkpoint, and the members of its config.json
 * that the job does not decide.
 *
 * The files come from the newest checkpoint before this one, else from the checkpoint that this
 * worker restored, else from the folder of model.from itself. So they survive a change or removal
 * of that folder.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/format/manifest.h"

struct source_files {
    const json_t *spec;       /* the job, encoded */
    const char *checkpoints;  /* the job's checkpoint folder */
    const char *restored;     /* the checkpoint that the job continues from; "": none */
    uint64_t step;            /* of the checkpoint in progress */
    const char *part;         /* folder of that checkpoint */
    const json_t *own_config; /* huggingface_config() of the job */
};

/**
 * source_files_take() - copy the files into @files->part and make its config.json
 * @manifest: lists the files afterwards; not sealed yet
 * @ret_config: a new reference; only with 0
 * @ret_left_out: the reason why a file of the source is missing; "": none is missing
 * (COMPANIONS_WORDS bytes)
 *
 * Return: 0; 1: the job did not begin from a folder; negative: no file could be read, the
 * checkpoint is restorable without them
 */
int source_files_take(const struct source_files *files, struct manifest *manifest,
                      json_t **ret_config, char *ret_left_out, struct error *error) CHECK_RESULT;
