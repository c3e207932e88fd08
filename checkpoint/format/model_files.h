/*
 * Files of a model besides its parameters: tokenizer, vocabulary, chat template,
 * generation_config.json, license. A job copies them from the folder of its initial model
 * (`model.from`) into each of its checkpoints, and `checkpoint export` copies them from there. The
 * manifest lists each of them with its checksums.
 */
#pragma once

#include <jansson.h>

#include "checkpoint/format/manifest.h"

#define COMPANION_BYTES_MAX   ((size_t)32 << 20) /* per file */
#define MODEL_FILES_BYTES_MAX ((size_t)64 << 20) /* per folder */
#define MODEL_FILES_MAX       64
#define MODEL_FILES_WORDS     256

struct model_files {
    char names[MODEL_FILES_MAX][MANIFEST_FILE_SIZE]; /* sorted */
    size_t count;
    char left_out[MODEL_FILES_WORDS]; /* description of a file over one of the limits; "": none */
};

/* The folder from which companions are copied. */
struct companion_source {
    const char *folder;
    /* of a checkpoint of firn; NULL: another program's folder */
    const struct manifest *manifest;
};

/** companion_name() - return whether a file of this name is a companion: not hidden, and neither
 * weights, code, config.json, README nor another file of a checkpoint */
bool companion_name(const char *name);

/** model_files_find() - list the companions in another program's folder, including links to
 * files, without subfolders. Return: 0; errors of opendir(), -ENOMEM */
int model_files_find(const char *folder, struct model_files *ret_companions,
                     struct error *error) CHECK_RESULT;

/** model_files_config() - return config.json of the source; a new reference. Errors of reading,
 * -EBADMSG, -EINVAL, -ENOMEM */
int model_files_config(const struct companion_source *source, json_t **ret_config,
                       struct error *error) CHECK_RESULT;

/**
 * model_files_copy() - write the source's companions into the folder @part, durably
 * @into: not sealed yet; the copied files are added
 * @ret_left_out: as in struct model_files; MODEL_FILES_WORDS bytes
 *
 * Return: 0; errors of reading and writing; -EBADMSG: a file differs from the source's manifest.
 * Files before the first failure stay, and are listed.
 */
int model_files_copy(const struct companion_source *source, const char *part, struct manifest *into,
                     char ret_left_out[MODEL_FILES_WORDS], struct error *error) CHECK_RESULT;
