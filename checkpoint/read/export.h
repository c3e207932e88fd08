/*
 * Export a checkpoint as a plain Hugging Face folder for publication or evaluation:
 * model.safetensors with every parameter, config.json, and the files that the job took from its
 * `model.from` (model_files.h). No optimizer, no manifest, no file specific to firn.
 *
 * The export reads only a committed checkpoint, so it may run while the job trains. All files are
 * kept open, so retention may remove the checkpoint meanwhile without an effect.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/read/reader.h"

struct checkpoint_export {
    const char *from;                       /* folder of one checkpoint */
    const struct checkpoint_source *source; /* location of its files, with copies; or NULL */
    const char *to;                         /* folder to create; its parent must exist */
    enum safetensors_dtype dtype; /* SAFETENSORS_F32 or SAFETENSORS_BF16, rounded to nearest even */
    void (*progress)(void *context, uint64_t done, uint64_t total); /* in bytes; may be NULL */
    void *context;
};

/**
 * checkpoint_export() - export every parameter, verified as it is read
 *
 * Writes to <to>.part, which may exist from an earlier attempt, and renames it when all is durable:
 * @to is complete or absent. A failure removes the written files.
 * Return: 0; -EEXIST: @to exists; -EINVAL: another dtype; errors of checkpoint_open() and
 * checkpoint_read(); -ENOSPC and others, with the file.
 */
int checkpoint_export(const struct checkpoint_export *export, struct error *error) CHECK_RESULT;

/** export_bf16() - round @value to BF16, ties to even; a NaN stays a NaN */
uint16_t export_bf16(float value);
