/*
 * Keys of checkpoints in the store, and the checkpoints in a listing.
 *
 *   <prefix>/<job>/step-0000000120-<16 digits>/manifest.json, and every file that it lists
 *
 * The digits are the first digits of the manifest's SHA-256, so all objects under one such name
 * belong to one checkpoint. The next upload can reuse the objects of an interrupted one, and two
 * checkpoints of one step never mix. The manifest is put last and removed first: a checkpoint is
 * complete if and only if its manifest is in the store.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/object/object.h"

#define OBJECT_ID_SIZE 17

struct object_checkpoint {
    uint64_t step;
    char id[OBJECT_ID_SIZE];
    char folder[OBJECT_KEY_SIZE]; /* its key, with the trailing slash */
    uint64_t size_bytes, manifest_bytes;
    size_t object_count;
    bool complete; /* its manifest is in the store */
};

struct object_catalog {
    struct object_checkpoint *checkpoints; /* by step, oldest first */
    size_t count;
};

/**
 * object_job_prefix() - make the common prefix of the keys of all checkpoints of a job;
 * -ENAMETOOLONG
 */
int object_job_prefix(const char *prefix, const char *job,
                      char ret_key[OBJECT_KEY_SIZE]) CHECK_RESULT;
/**
 * object_folder() - make the key of one checkpoint's folder, with the trailing slash; room is left
 * for any file name
 */
int object_folder(const char *prefix, const char *job, uint64_t step, const char *manifest_sha256,
                  char ret_key[OBJECT_KEY_SIZE]) CHECK_RESULT;
/** object_file_key() - make the key of a file: @folder, then @name */
void object_file_key(const char *folder, const char *name, char ret_key[OBJECT_KEY_SIZE]);

/**
 * object_catalog_make() - make the catalog from a listing of object_job_prefix(); foreign keys are
 * ignored; -ENOMEM
 */
int object_catalog_make(const struct object_list *list, const char *job_prefix,
                        struct object_catalog *ret_catalog) CHECK_RESULT;
void object_catalog_done(struct object_catalog *catalog);

/**
 * object_catalog_find() - return the newest complete checkpoint of @step (with @any_up_to: of all
 * steps up to @step), or NULL
 */
const struct object_checkpoint *object_catalog_find(const struct object_catalog *catalog,
                                                    uint64_t step, bool any_up_to);
/**
 * object_catalog_expired() - return whether to remove the @index-th checkpoint now that @step is
 * complete as @id
 *
 * The newest @keep complete checkpoints up to @step are kept. An incomplete older checkpoint was
 * abandoned, and so was another checkpoint of @step. Checkpoints of later steps are from a run
 * before a rollback and are kept until the job reaches their steps again.
 */
bool object_catalog_expired(const struct object_catalog *catalog, size_t index, uint64_t step,
                            const char *id, unsigned keep);
