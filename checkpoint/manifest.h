/*
 * manifest.json: everything a checkpoint consists of, written last. A checkpoint is what its
 * committed manifest says; a reader trusts nothing else.
 *
 * Tensors appear in canonical order (the model's unit order; for each tensor its parameter, first
 * and second moment), whatever layout wrote them. state_digest is the XXH3-128 over, in canonical
 * order, every tensor's name, role and XXH3-128, then the freeze state's JSON text: equal on every layout.
 */
#pragma once

#include <jansson.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/name.h"

#define MANIFEST_NAME     "manifest.json"
#define MANIFEST_FILE_SIZE 128 /* of a file name in the folder */
#define MANIFEST_TENSORS_MAX 65536
#define MANIFEST_CHUNK_BYTES (4u << 20)

enum manifest_role { MANIFEST_PARAMETER, MANIFEST_FIRST_MOMENT, MANIFEST_SECOND_MOMENT };

struct manifest_tensor {
    char name[128];
    enum manifest_role role;
    unsigned order; /* canonical position */
    char file[MANIFEST_FILE_SIZE];
    uint64_t offset, size_bytes;
    struct hash128 hash;
};

struct manifest_file {
    char name[MANIFEST_FILE_SIZE];
    uint64_t size_bytes;
    uint32_t *chunk_crcs; /* CRC32C of each MANIFEST_CHUNK_BYTES */
    size_t chunk_count;
};

struct manifest {
    char job[NAME_SIZE];
    uint64_t step, generation;
    json_t *spec;         /* job_spec_encode()'s tree */
    json_t *state;        /* freeze state and whatever else the trainer needs to go on: {"freeze":..., ...} */
    struct hash128 state_digest;
    struct manifest_tensor *tensors;
    size_t tensor_count;
    struct manifest_file *files;
    size_t file_count;
};

void manifest_done(struct manifest *manifest);
/** manifest_merge() - append the shards of @part (one worker's); same job, step, generation or -EINVAL */
int manifest_merge(struct manifest *into, const struct manifest *part, struct error *error) CHECK_RESULT;
/** manifest_seal() - sort canonically, check that orders are complete (0..n-1), compute state_digest */
int manifest_seal(struct manifest *manifest, size_t tensor_count_expected, struct error *error) CHECK_RESULT;
json_t *manifest_encode(const struct manifest *manifest);
int manifest_decode(const json_t *tree, const char *where, struct manifest *ret_manifest, struct error *error) CHECK_RESULT;
/** manifest_load() - read @folder/manifest.json; @sha256: NULL or what it must hash to (-EBADMSG) */
int manifest_load(const char *folder, const char *sha256, struct manifest *ret_manifest, struct error *error) CHECK_RESULT;
