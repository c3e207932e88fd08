/*
 * Files of checkpoints on other nodes, read through their firnd.
 *
 *   GET /v1/jobs/JOB/checkpoints/FOLDER/FILE?at=OFFSET&bytes=COUNT
 *   Firn-Proof: 64 hexadecimal digits
 *
 * FOLDER is step-N or step-N.gG.part below the job's checkpoint folder of that node. The proof is a
 * keyed BLAKE2b-256 over job, folder, file and range under the link key of the plan in force: who
 * does not know the key learns nothing, and one who listens can ask again for what has been seen.
 * What comes is believed only after its checksums: the manifest's SHA-256, CRC32C of chunks,
 * XXH3-128 of tensors. At most CHECKPOINT_REMOTE_MAX bytes come in one answer.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define CHECKPOINT_REMOTE_MAX   ((size_t)4 << 20)
#define CHECKPOINT_KEY_SIZE     32
#define CHECKPOINT_PROOF_HEADER "Firn-Proof"
#define CHECKPOINT_PROOF_SIZE   65 /* as text, with its zero */

struct checkpoint_range {
    const char *job, *folder, *file;
    uint64_t offset, size_bytes;
};

/** checkpoint_proof() - that somebody who knows @key asks for @range */
void checkpoint_proof(const uint8_t key[CHECKPOINT_KEY_SIZE], const struct checkpoint_range *range,
                      char ret_proof[CHECKPOINT_PROOF_SIZE]);
/** checkpoint_proof_valid() - in constant time; @proof may be anything */
bool checkpoint_proof_valid(const uint8_t key[CHECKPOINT_KEY_SIZE],
                            const struct checkpoint_range *range, const char *proof);

struct checkpoint_remote;

struct checkpoint_remote_node {
    char name[NAME_SIZE];
    char http[ADDRESS_SIZE]; /* "host:port"; empty: not to be reached */
};

struct checkpoint_remote_options {
    const char *job;
    uint8_t key[CHECKPOINT_KEY_SIZE];
    const struct checkpoint_remote_node *nodes; /* copied */
    unsigned node_count;
    uint64_t timeout_ns;     /* of silence, after which a node is given up */
    const atomic_bool *stop; /* ends what is under way with -ECANCELED; NULL: nothing does */
};

int checkpoint_remote_new(const struct checkpoint_remote_options *options,
                          struct checkpoint_remote **ret_remote, struct error *error) CHECK_RESULT;
void checkpoint_remote_free(struct checkpoint_remote *remote); /* NULL allowed */
unsigned checkpoint_remote_count(const struct checkpoint_remote *remote);
const char *checkpoint_remote_name(const struct checkpoint_remote *remote, unsigned index);
/** checkpoint_remote_silent() - has its host given no sign of life when it was asked, not even the
 * refusal of a connection? */
bool checkpoint_remote_silent(const struct checkpoint_remote *remote, unsigned index);

/**
 * checkpoint_remote_read() - a range of a file on @node; any number of threads may ask at once
 *
 * Return: 0: *ret_size bytes are in @ret_data, fewer than asked for only where the file ends;
 * -ENOENT: the node answers that it has no such file; -EHOSTUNREACH: it does not answer, or refuses
 * (another generation is in force there); -EIO: it cannot read it; -ECANCELED; -ENOMEM.
 */
int checkpoint_remote_read(struct checkpoint_remote *remote, const char *node, const char *folder,
                           const char *file, uint64_t offset, void *ret_data, size_t size_bytes,
                           size_t *ret_size, struct error *error) CHECK_RESULT;
/** checkpoint_remote_get() - a whole file of at most @size_max bytes (-EFBIG), appended */
int checkpoint_remote_get(struct checkpoint_remote *remote, const char *node, const char *folder,
                          const char *file, size_t size_max, struct bytes *into,
                          struct error *error) CHECK_RESULT;
