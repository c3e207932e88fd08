/*
 * What lies where in the store, and which checkpoints a listing shows.
 *
 *   <prefix>/<job>/step-0000000120-<16 digits>/manifest.json, and every file that it lists
 *
 * The digits are the first of the manifest's SHA-256, so all that lies under one such name belongs
 * to one checkpoint: what an upload that was cut off has left is good for the next one, and two
 * checkpoints of one step never mix. The manifest's object is put last and removed first: a
 * checkpoint is complete if and only if it is there.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/object/object.h"

#define OBJECT_ID_SIZE 17

struct object_checkpoint {
    uint64_t step;
    char id[OBJECT_ID_SIZE];
    char folder[OBJECT_KEY_SIZE]; /* key of it, with the slash at its end */
    uint64_t size_bytes, manifest_bytes;
    size_t object_count;
    bool complete; /* its manifest is there */
};

struct object_catalog {
    struct object_checkpoint *checkpoints; /* by step, oldest first */
    size_t count;
};

/** object_job_prefix() - what the keys of all checkpoints of a job begin with. -ENAMETOOLONG */
int object_job_prefix(const char *prefix, const char *job,
                      char ret_key[OBJECT_KEY_SIZE]) CHECK_RESULT;
/** object_folder() - of one checkpoint, with the slash at its end; room is left for any file's name
 */
int object_folder(const char *prefix, const char *job, uint64_t step, const char *manifest_sha256,
                  char ret_key[OBJECT_KEY_SIZE]) CHECK_RESULT;
/** object_file_key() - @folder and a file's name behind it */
void object_file_key(const char *folder, const char *name, char ret_key[OBJECT_KEY_SIZE]);

/** object_catalog_make() - from a listing of object_job_prefix(); keys that are not ours are passed
 * over. -ENOMEM */
int object_catalog_make(const struct object_list *list, const char *job_prefix,
                        struct object_catalog *ret_catalog) CHECK_RESULT;
void object_catalog_done(struct object_catalog *catalog);

/** object_catalog_find() - the newest complete one of @step (any: newest of all steps up to it), or
 * NULL */
const struct object_checkpoint *object_catalog_find(const struct object_catalog *catalog,
                                                    uint64_t step, bool any_up_to);
/**
 * object_catalog_expired() - does the @index-th have to go, now that @step is complete as @id?
 *
 * Of the complete ones up to @step the newest @keep steps stay. What is incomplete and not newer
 * was given up, and so was another checkpoint of the same step. Those of later steps are of an
 * earlier life of the job and stay until it has come so far again.
 */
bool object_catalog_expired(const struct object_catalog *catalog, size_t index, uint64_t step,
                            const char *id, unsigned keep);
