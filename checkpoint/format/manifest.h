/*
 * manifest.json: the complete list of a checkpoint's contents, written last. The committed manifest
 * defines the checkpoint; a reader trusts nothing else.
 *
 * Tensors appear in canonical order (the model's unit order; for each tensor its parameter, first
 * and second moment), for every layout. state_digest is the XXH3-128 over every tensor's name, role
 * and XXH3-128, in canonical order, then the freeze state's JSON text (keys sorted): equal for
 * every layout. docs/CHECKPOINT_FORMAT.md defines it byte by byte.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/name.h"

#define MANIFEST_NAME        "manifest.json"
#define MANIFEST_FILE_SIZE   128 /* length of a file name in the folder */
#define MANIFEST_TENSORS_MAX 65536
#define MANIFEST_FILES_MAX   16384
#define MANIFEST_NODES_MAX   8 /* nodes that have the same file */
#define MANIFEST_CHUNK_BYTES (4u << 20)
#define MANIFEST_BYTES_MAX   (256u << 20) /* of manifest.json itself */

enum manifest_role { MANIFEST_PARAMETER, MANIFEST_FIRST_MOMENT, MANIFEST_SECOND_MOMENT };

struct manifest_tensor {
    char name[128];
    enum manifest_role role;
    unsigned order; /* canonical position among all tensors of all roles */
    char file[MANIFEST_FILE_SIZE];
    uint64_t offset, size_bytes;
    struct hash128 hash;
};

struct manifest_file {
    char name[MANIFEST_FILE_SIZE];
    uint64_t size_bytes;
    uint32_t *chunk_crcs; /* CRC32C of each MANIFEST_CHUNK_BYTES */
    size_t chunk_count;
    /* With copies: the nodes that have the file, its writer first. NULL: every folder of the
     * checkpoint has it. */
    char (*nodes)[NAME_SIZE];
    unsigned node_count;
};

struct manifest {
    char job[NAME_SIZE];
    uint64_t step, generation;
    json_t *spec; /* job_spec_encode()'s tree */
    /* {"freeze": ..., ...}: the trainer's state besides tensors */
    json_t *state;
    struct hash128 state_digest;
    struct manifest_tensor *tensors;
    size_t tensor_count;
    struct manifest_file *files;
    size_t file_count;
};

void manifest_done(struct manifest *manifest);
/** manifest_role_name() - return "parameter", "first_moment" or "second_moment" */
const char *manifest_role_name(enum manifest_role role);
/** manifest_file_valid() - return whether @name is a plain name inside the folder:
 * [A-Za-z0-9._-], no leading dot */
bool manifest_file_valid(const char *name);
/** manifest_chunks() - return the number of chunks of a file of @size_bytes */
size_t manifest_chunks(uint64_t size_bytes);
/** manifest_chunk_crcs() - compute the CRC32C of each chunk of a file's content,
 * manifest_chunks() of them */
void manifest_chunk_crcs(const void *data, size_t size_bytes, uint32_t *ret_crcs);
/** manifest_find_file() - find a file by name; NULL: not listed */
const struct manifest_file *manifest_find_file(const struct manifest *manifest, const char *name);

/** manifest_add_file() - add a file of @size_bytes that every folder of the checkpoint has, with
 * the checksums of @data; -ENOMEM */
int manifest_add_file(struct manifest *manifest, const char *name, const void *data,
                      size_t size_bytes) CHECK_RESULT;
/** manifest_drop_files() - keep only the first @count files */
void manifest_drop_files(struct manifest *manifest, size_t count);
/** manifest_check_file() - compare @content with the manifest's entry @name. Return: 0;
 * -EBADMSG: it differs; -ENOMEM. @path: for @error */
int manifest_check_file(const struct manifest *manifest, const char *name,
                        const struct bytes *content, const char *path,
                        struct error *error) CHECK_RESULT;

/** manifest_name_nodes() - set the nodes that have @file; @nodes is copied; -ENOMEM */
int manifest_name_nodes(struct manifest_file *file, const char (*nodes)[NAME_SIZE],
                        unsigned node_count) CHECK_RESULT;
/** manifest_file_on() - return whether @node has @file */
bool manifest_file_on(const struct manifest_file *file, const char *node);

/** manifest_is_sealed() - return whether the manifest has a digest, from manifest_seal() or from
 * decoding */
bool manifest_is_sealed(const struct manifest *manifest);

/** manifest_merge() - append the shards of @part (one worker's), which the caller still owns.
 * Both must have the same job, step and generation (an @into without a job takes @part's), and
 * no file twice.
 * Return: 0; -EINVAL; -ENOMEM. @into is unchanged on failure */
int manifest_merge(struct manifest *into, const struct manifest *part,
                   struct error *error) CHECK_RESULT;
/** manifest_seal() - sort canonically, check that orders are complete (0..n-1, each once over
 * all roles), compute state_digest; -EINVAL: @error names the missing or repeated order */
int manifest_seal(struct manifest *manifest, size_t tensor_count_expected,
                  struct error *error) CHECK_RESULT;
/** manifest_encode() - encode a part (no spec yet, not sealed) or a sealed manifest; NULL if
 * memory is short */
json_t *manifest_encode(const struct manifest *manifest);
/** manifest_decode() - decode a part or a sealed manifest; a sealed one is checked against its
 * state_digest. -EBADMSG, -ENOMEM */
int manifest_decode(const json_t *tree, const char *where, struct manifest *ret_manifest,
                    struct error *error) CHECK_RESULT;

/** manifest_text() - return the exact bytes of manifest.json: the encoded manifest, ended by the
 * checksum of all bytes before it; -ENOMEM, -EFBIG (longer than a reader accepts) */
int manifest_text(const struct manifest *manifest, struct bytes *ret_text) CHECK_RESULT;
/** manifest_parse() - parse the bytes of manifest_text(); any flipped bit is -EBADMSG */
int manifest_parse(const char *text, size_t size_bytes, const char *where,
                   struct manifest *ret_manifest, struct error *error) CHECK_RESULT;
/** manifest_sha256() - hash the bytes of manifest.json for the commit record */
void manifest_sha256(const void *text, size_t size_bytes, char ret_sha256[65]);
/** manifest_check() - decode a whole, sealed manifest from its bytes; @where and @sha256 as for
 * manifest_load() */
int manifest_check(const struct bytes *content, const char *where, const char *sha256,
                   struct manifest *ret_manifest, struct error *error) CHECK_RESULT;
/** manifest_load() - read @folder/manifest.json; @sha256: NULL, or the required hash (else
 * -EBADMSG) */
int manifest_load(const char *folder, const char *sha256, struct manifest *ret_manifest,
                  struct error *error) CHECK_RESULT;
