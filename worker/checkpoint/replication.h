/*
 * One node's part in a checkpoint with copies (checkpoint/replicate/copy_place.h lists the steps).
 *
 * Nodes exchange no messages for it: each node writes files into its own part folder, and other
 * nodes poll that folder through its firnd. A file holds one fact and is replaced as a whole, so
 * every node may read it again at any time. A firnd that is away for a moment delays the checkpoint
 * and does not break it.
 *
 *   part-00003.json  the share of rank 3 (a manifest part)
 *   copies.json      this node's keeper: the nodes whose shares it has copies of, and any problem
 *   sealed.json      node of rank 0: the manifest's SHA-256; the manifest beside it is final
 *   placed           in the folder with the final name: that name is durable (the SHA-256 again)
 *
 * The keeper of a node is its lowest rank. All functions here run on threads beside the step loop
 * and return soon after `stop` is set.
 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/local.h"
#include "elastic/copies/copies.h"

struct replication_options {
    const struct plan *plan; /* of a generation with copies; copied */
    const bool *left_out;    /* by rank: of nodes that have no part in it; NULL: none */
    const char *node;        /* of this worker */
    const char *folder;      /* the job's checkpoint folder on this node */
    const struct io *io;
    uint64_t step, timeout_ns;
};

struct replication {
    struct plan *plan; /* with only the copy nodes that take part */
    char node[NAME_SIZE];
    char folder[JOB_PATH_SIZE];
    unsigned self, writer_count; /* indexes of copy nodes */
    uint64_t step, timeout_ns;
    struct checkpoint_remote *remote;
    struct checkpoint_local local;
    atomic_bool stop;
};

/** replication_new() - begin for one checkpoint; the node is a copy node of the plan, not left out;
 * -ENOMEM, -EINVAL (no key) */
int replication_new(const struct replication_options *options, struct replication **ret_spread,
                    struct error *error) CHECK_RESULT;
void replication_free(struct replication *replication); /* NULL allowed; its threads have ended */

/** replication_remote() - convert the copy nodes of @plan for a reader; @stop may be NULL */
int replication_remote(const struct plan *plan, uint64_t timeout_ns, const atomic_bool *stop,
                       struct checkpoint_remote **ret_remote, struct error *error) CHECK_RESULT;

/** replication_copy_node() - return the node that rank @rank, which is not left out, writes to */
unsigned replication_copy_node(const struct replication *replication, unsigned rank);
/** replication_path() - return the path of a file in this node's part folder */
void replication_path(const struct replication *replication, const char *file,
                      char ret_path[JOB_PATH_SIZE + 64]);
/** replication_tries_again() - wait for a timeout and return true if a firnd that is being
 * replaced may be the cause of @status, and tries are left
 * @tries: counts the attempts, 0 at first */
bool replication_tries_again(const struct replication *replication, int status, unsigned *tries);

/** replication_part() - read the part of @rank from its node; *ret_digest is XXH3-128 of its text,
 * which lists every file with its checksums */
int replication_part(struct replication *replication, unsigned rank, struct manifest *ret_part,
                     struct hash128 *ret_digest, struct error *error) CHECK_RESULT;
/** replication_add_digest() - add a digest of a part to @sum; the order does not matter */
void replication_add_digest(struct hash128 *sum, struct hash128 digest);

/* The copies that one node has. */
struct replication_receipt {
    bool has[PLAN_COPY_NODES_MAX]; /* by copy node: this copy node's share, besides its own */
    bool has_digest;               /* false: the writer's version has no digest */
    struct hash128 digest; /* sum over the copied parts; attempts at a checkpoint differ in it */
    char problem[256];     /* empty: the node has all copies that it is to keep */
};

/**
 * replication_receive() - fetch the shares that this node is to keep copies of
 * @ret_receipt: the shares present; a share that could not be fetched is a problem, not an error
 *
 * Return: 0; -ECANCELED; -EEXIST: the folder is shared with another node; -ENOMEM
 */
int replication_receive(struct replication *replication, struct replication_receipt *ret_receipt,
                        struct error *error) CHECK_RESULT;
/** replication_write_receipt() - write the receipt for rank 0's node, which waits for it; errors of
 * file_replace() */
int replication_write_receipt(const struct replication *replication,
                              const struct replication_receipt *receipt,
                              struct error *error) CHECK_RESULT;
/** replication_await_receipt() - wait for the receipt of @copy_node's keeper; -ETIMEDOUT,
 * -ECANCELED, -EBADMSG, -ENOMEM */
int replication_await_receipt(struct replication *replication, unsigned copy_node,
                              uint64_t deadline_ns, struct replication_receipt *ret_receipt,
                              struct error *error) CHECK_RESULT;

/* Published by rank 0's node when the manifest is final. */
struct replication_seal {
    char sha256[65];
    struct hash128 digest; /* of the state */
};

/** replication_write_seal() - publish a manifest that is durable beside the seal; errors of
 * file_replace() */
int replication_write_seal(const struct replication *replication,
                           const struct replication_seal *seal, struct error *error) CHECK_RESULT;
/** replication_await_seal() - wait for the seal while the generation lasts; -ECANCELED, -EBADMSG,
 * -ENOMEM */
int replication_await_seal(struct replication *replication, struct replication_seal *ret_seal,
                           struct error *error) CHECK_RESULT;

/** replication_place() - remove temporary files, and give the folder its final name */
int replication_place(struct replication *replication, const struct replication_seal *seal,
                      char ret_path[1024], struct error *error) CHECK_RESULT;
/** replication_await_placed() - wait until the keeper of @copy_node has placed its folder;
 * -ETIMEDOUT, -ECANCELED */
int replication_await_placed(struct replication *replication, unsigned copy_node,
                             const struct replication_seal *seal, uint64_t deadline_ns,
                             struct error *error) CHECK_RESULT;
