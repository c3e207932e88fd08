/*
 * Read files on other nodes through their firnd: files of checkpoints, and kept outputs of frozen
 * layers (worker/cache/outputs_fetch.h).
 *
 *   GET /v1/jobs/JOB/checkpoints/FOLDER/FILE?at=OFFSET&bytes=COUNT
 *   Firn-Proof: 64 hexadecimal digits
 *
 * FOLDER is step-N or step-N.gG.part below the job's checkpoint folder of that node, or frozen, in
 * the job's own folder. The proof is a keyed BLAKE2b-256 over job, folder, file and range under the
 * link key of the plan in force. A client without the key learns nothing. An eavesdropper can
 * replay a request, but gets only data that it has seen already, or data that has replaced it
 * since. Received data is used only after its checksums match: the manifest's SHA-256, CRC32C of
 * chunks, XXH3-128 of tensors. Kept outputs have no checksum from another source, so these answers
 * end with a seal: a keyed BLAKE2b-256 over the proof and the bytes. One response has at most
 * CHECKPOINT_REMOTE_MAX bytes, besides the seal.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define CHECKPOINT_REMOTE_MAX    ((size_t)4 << 20)
#define CHECKPOINT_KEY_SIZE      32
#define CHECKPOINT_REMOTE_FROZEN "frozen" /* the folder of kept outputs */
#define CHECKPOINT_SEAL_SIZE     32
#define CHECKPOINT_PROOF_HEADER  "Firn-Proof"
#define CHECKPOINT_PROOF_SIZE    65 /* as text, with its zero */

struct checkpoint_range {
    const char *job, *folder, *file;
    uint64_t offset, size_bytes;
};

/** checkpoint_proof() - make the proof that the requester of @range knows @key */
void checkpoint_proof(const uint8_t key[CHECKPOINT_KEY_SIZE], const struct checkpoint_range *range,
                      char ret_proof[CHECKPOINT_PROOF_SIZE]);
/** checkpoint_proof_valid() - verify a proof in constant time; @proof may be any text */
bool checkpoint_proof_valid(const uint8_t key[CHECKPOINT_KEY_SIZE],
                            const struct checkpoint_range *range, const char *proof);

/** checkpoint_is_sealed() - return whether answers with files of @folder end with a seal */
bool checkpoint_is_sealed(const char *folder);
/** checkpoint_seal() - make the seal of @data, the answer to the request with @proof: it proves
 * that the sender knows @key */
void checkpoint_seal(const uint8_t key[CHECKPOINT_KEY_SIZE], const char *proof, const void *data,
                     size_t size_bytes, uint8_t ret_seal[CHECKPOINT_SEAL_SIZE]);

struct checkpoint_remote;

struct checkpoint_remote_node {
    char name[NAME_SIZE];
    char http[ADDRESS_SIZE]; /* "host:port"; empty: unreachable */
};

struct checkpoint_remote_options {
    const char *job;
    uint8_t key[CHECKPOINT_KEY_SIZE];
    const struct checkpoint_remote_node *nodes; /* copied */
    unsigned node_count;
    uint64_t timeout_ns;     /* of silence before a node counts as unreachable */
    const atomic_bool *stop; /* cancels requests in flight with -ECANCELED; NULL: never */
};

int checkpoint_remote_new(const struct checkpoint_remote_options *options,
                          struct checkpoint_remote **ret_remote, struct error *error) CHECK_RESULT;
void checkpoint_remote_free(struct checkpoint_remote *remote); /* NULL allowed */
unsigned checkpoint_remote_count(const struct checkpoint_remote *remote);
const char *checkpoint_remote_name(const struct checkpoint_remote *remote, unsigned index);
/**
 * checkpoint_remote_silent() - return whether the last request got no response at all from the
 * node's host, not even a refused connection
 */
bool checkpoint_remote_silent(const struct checkpoint_remote *remote, unsigned index);

/**
 * checkpoint_remote_read() - read a range of a file on @node; safe for concurrent calls
 *
 * Return: 0: *ret_size bytes are in @ret_data, fewer than requested only at the end of the file;
 * -ENOENT: the node reports that it has no such file; -EBADMSG: the seal does not fit;
 * -EHOSTUNREACH: the node does not respond, or refuses (another generation is in force there);
 * -EIO: the node cannot read the file; -ECANCELED; -ENOMEM.
 */
int checkpoint_remote_read(struct checkpoint_remote *remote, const char *node, const char *folder,
                           const char *file, uint64_t offset, void *ret_data, size_t size_bytes,
                           size_t *ret_size, struct error *error) CHECK_RESULT;
/** checkpoint_remote_get() - append a whole file of at most @size_max bytes (-EFBIG) to @into */
int checkpoint_remote_get(struct checkpoint_remote *remote, const char *node, const char *folder,
                          const char *file, size_t size_max, struct bytes *into,
                          struct error *error) CHECK_RESULT;
