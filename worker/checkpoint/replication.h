/*
 * A checkpoint with copies, as one node takes part in it (checkpoint/replicate/copy_steps.h says
 * the steps).
 *
 * Nodes need no messages for it: what one has to say it writes into its own part folder, and
 * whoever waits for it looks there through that node's firnd. A file says one thing and is replaced
 * whole, so everybody may look again at any time, and a firnd that is away for a moment delays and
 * does not break.
 *
 *   part-00003.json  what rank 3 has written (a manifest part)
 *   copies.json      this node's keeper: whose shares it has copies of, and what went wrong
 *   sealed.json      node of rank 0: the manifest's SHA-256; the manifest beside it is final
 *   placed           in the folder with the final name: that name is durable (the SHA-256 again)
 *
 * The keeper of a node is its lowest rank. Everything here runs on threads beside the step loop and
 * comes back soon after `stop` is set.
 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/local.h"
#include "elastic/copies/copies.h"

struct replication_options {
    const struct plan *plan; /* copied; with copies */
    const bool *left_out;    /* ranks of nodes that have no part in it; NULL: none */
    const char *node;        /* this one */
    const char *folder;      /* the job's checkpoint folder here */
    const struct io *io;
    uint64_t step, timeout_ns;
};

struct replication {
    struct plan *plan; /* its stores: only those that have a part in it */
    char node[NAME_SIZE];
    char folder[JOB_PATH_SIZE];
    unsigned self, writer_count; /* stores */
    uint64_t step, timeout_ns;
    struct checkpoint_remote *remote;
    struct checkpoint_local local;
    atomic_bool stop;
};

/** replication_new() - for one checkpoint; the node is a store of the plan, not left out; -ENOMEM,
 * -EINVAL (no key) */
int replication_new(const struct replication_options *options, struct replication **ret_spread,
                    struct error *error) CHECK_RESULT;
void replication_free(struct replication *spread); /* NULL allowed; no thread uses it any more */

/** replication_remote() - the stores of @plan as a reader wants them; @stop may be NULL */
int replication_remote(const struct plan *plan, uint64_t timeout_ns, const atomic_bool *stop,
                       struct checkpoint_remote **ret_remote, struct error *error) CHECK_RESULT;

/** replication_store() - which store rank @rank, which is not left out, writes to */
unsigned replication_store(const struct replication *spread, unsigned rank);
/** replication_path() - of a file in this node's part folder */
void replication_path(const struct replication *spread, const char *file,
                      char ret_path[JOB_PATH_SIZE + 64]);
/** replication_part() - the description of what @rank has written, from wherever it lies;
 * *ret_digest is XXH3-128 of its text, which names every file with its checksums */
int replication_part(struct replication *spread, unsigned rank, struct manifest *ret_part,
                     struct hash128 *ret_digest, struct error *error) CHECK_RESULT;
/** replication_add_digest() - digests of parts add up in any order */
void replication_add_digest(struct hash128 *sum, struct hash128 digest);

/* What one node has copies of. */
struct replication_receipt {
    bool has[PLAN_STORES_MAX]; /* this store's share, besides its own */
    bool has_digest;           /* false: written by a version that did not say */
    struct hash128 digest;     /* of the parts that were copied, added up: an earlier attempt at the
                                  same checkpoint has others */
    char problem[256];         /* empty: it has all that it was to have */
};

/**
 * replication_receive() - fetch the shares that this node is to keep copies of
 * @ret_receipt: which of them are here; a share that could not be had is a problem, no failure
 * Return: 0; -ECANCELED; -EEXIST: the folder is shared with another node; -ENOMEM
 */
int replication_receive(struct replication *spread, struct replication_receipt *ret_receipt,
                        struct error *error) CHECK_RESULT;
/** replication_write_receipt() - for rank 0's node, which awaits it; the errors of file_replace()
 */
int replication_write_receipt(const struct replication *spread,
                              const struct replication_receipt *receipt,
                              struct error *error) CHECK_RESULT;
/** replication_await_receipt() - of the keeper of @store; -ETIMEDOUT, -ECANCELED, -EBADMSG, -ENOMEM
 */
int replication_await_receipt(struct replication *spread, unsigned store, uint64_t deadline_ns,
                              struct replication_receipt *ret_receipt,
                              struct error *error) CHECK_RESULT;

/* What rank 0's node says when the manifest is final. */
struct replication_seal {
    char sha256[65];
    struct hash128 digest; /* of the state */
};

/** replication_write_seal() - of a manifest that is durable beside it; the errors of file_replace()
 */
int replication_write_seal(const struct replication *spread, const struct replication_seal *seal,
                           struct error *error) CHECK_RESULT;
/** replication_await_seal() - as long as the generation lasts; -ECANCELED, -EBADMSG, -ENOMEM */
int replication_await_seal(struct replication *spread, struct replication_seal *ret_seal,
                           struct error *error) CHECK_RESULT;

/** replication_place() - remove what only the making needed, and give the folder its final name */
int replication_place(struct replication *spread, const struct replication_seal *seal,
                      char ret_path[1024], struct error *error) CHECK_RESULT;
/** replication_await_placed() - until the keeper of @store has done so; -ETIMEDOUT, -ECANCELED */
int replication_await_placed(struct replication *spread, unsigned store,
                             const struct replication_seal *seal, uint64_t deadline_ns,
                             struct error *error) CHECK_RESULT;
