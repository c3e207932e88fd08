/*
 * Files that belong to a model beside its parameters: tokenizer, vocabulary, chat template,
 * generation_config.json, license. A job takes them from the folder that it began with
 * (`model.from`), writes them into each of its checkpoints, and `checkpoint export` copies them
 * from there. The manifest lists each of them with its checksums.
 */
#pragma once

#include <jansson.h>

#include "checkpoint/format/manifest.h"

#define COMPANION_BYTES_MAX   ((size_t)32 << 20) /* of one file */
#define MODEL_FILES_BYTES_MAX ((size_t)64 << 20) /* of all of a folder's */
#define MODEL_FILES_MAX       64
#define MODEL_FILES_WORDS     256

struct model_files {
    char names[MODEL_FILES_MAX][MANIFEST_FILE_SIZE]; /* sorted */
    size_t count;
    char left_out[MODEL_FILES_WORDS]; /* a file over one of the limits, and which; "": none */
};

/* The folder to copy from. */
struct companion_source {
    const char *folder;
    const struct manifest *manifest; /* of a checkpoint of firn's; NULL: another program's folder */
};

/** companion_name() - whether a file of this name is a companion: not hidden, and neither weights,
 * code, config.json, README nor one of the other files of a checkpoint */
bool companion_name(const char *name);

/** model_files_find() - those that another program's folder has, links to files included; folders
 * in it are left out. The errors of opendir(), -ENOMEM */
int model_files_find(const char *folder, struct model_files *ret_companions,
                     struct error *error) CHECK_RESULT;

/** model_files_config() - config.json of the source; a new reference. The errors of reading,
 * -EBADMSG, -EINVAL, -ENOMEM */
int model_files_config(const struct companion_source *source, json_t **ret_config,
                       struct error *error) CHECK_RESULT;

/**
 * model_files_copy() - write the source's companions into the folder @part, durably
 * @into: lists them afterwards; not sealed yet
 * @ret_left_out: as in struct model_files; MODEL_FILES_WORDS bytes
 *
 * Return: 0; the errors of reading and writing, -EBADMSG: a file is not what the source's manifest
 * lists. Files before the first one that failed stay, and are listed.
 */
int model_files_copy(const struct companion_source *source, const char *part, struct manifest *into,
                     char ret_left_out[MODEL_FILES_WORDS], struct error *error) CHECK_RESULT;
