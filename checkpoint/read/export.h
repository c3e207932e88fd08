/*
 * A checkpoint as a plain Hugging Face folder: model.safetensors with every parameter, config.json,
 * and the files that the job took from its `model.from` (model_files.h). No optimizer, no manifest,
 * nothing of firn's own: what one publishes or evaluates.
 *
 * Reads a committed checkpoint and nothing else, so it may run while the job trains on. The files
 * are open all the while: retention may remove the checkpoint meanwhile and takes nothing away.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/read/reader.h"

struct checkpoint_export {
    const char *from;                       /* the folder of one checkpoint */
    const struct checkpoint_source *source; /* NULL; or where its files lie, with copies */
    const char *to;                         /* the folder to make; its parent must be there */
    enum safetensors_dtype dtype; /* SAFETENSORS_F32 or SAFETENSORS_BF16, rounded to nearest even */
    void (*progress)(void *context, uint64_t done, uint64_t total); /* in bytes; may be NULL */
    void *context;
};

/**
 * checkpoint_export() - every parameter verified as it is read
 *
 * Written into <to>.part, which an earlier attempt may have left, and renamed when all is durable:
 * @to is there whole or not at all. A failure removes what was written.
 * Return: 0; -EEXIST: @to is there; -EINVAL: another dtype; what checkpoint_open() and
 * checkpoint_read() return; -ENOSPC and others name the file.
 */
int checkpoint_export(const struct checkpoint_export *export, struct error *error) CHECK_RESULT;

/** export_bf16() - the BF16 nearest to @value, ties to even; a NaN stays one */
uint16_t export_bf16(float value);
