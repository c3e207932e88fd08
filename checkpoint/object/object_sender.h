/*
 * The state machine of an upload, without I/O and clock.
 *
 * The sender gives an order; the caller executes the order and reports the result. The first orders
 * list the store, so that an upload interrupted by a crash or an outage continues: existing objects
 * are skipped, and so are parts of started uploads. Files of frozen units that an older checkpoint
 * of the job has in the store are copied inside the store. The manifest is put last.
 *
 * A transient failure is retried with backoff. After OBJECT_TRIES_MAX consecutive failures the
 * sender fails, and the caller may start again with a new sender. An upload that the store has lost
 * is restarted up to SENDER_RESTARTS_MAX times.
 *
 * Files may be left to other nodes. Before the manifest the sender polls the store for these files.
 * After SENDER_OTHERS_LOOKS polls without progress it sends the missing files itself and reuses the
 * parts that other nodes have sent.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/object/object_catalog.h"
#include "checkpoint/object/object_retry.h"

#define SENDER_RESTARTS_MAX 4
#define SENDER_PART_BYTES   (16u << 20)
#define SENDER_OTHERS_NS    2000000000ull /* between polls for the files of other nodes */
#define SENDER_OTHERS_LOOKS 30            /* polls without progress before this node sends */

enum sender_action {
    SENDER_LIST,         /* all keys of the job */
    SENDER_READ_EARLIER, /* the manifest of an older checkpoint, `key` of `size_bytes` */
    SENDER_LIST_UPLOADS, /* unfinished ones in the checkpoint's folder */
    SENDER_LIST_PARTS,   /* of `key`, `upload` */
    SENDER_BEGIN,        /* an upload of `key` */
    SENDER_PUT_PART,     /* `number`: `size_bytes` from `offset` of file `file` */
    SENDER_FINISH,       /* `upload` of `key` with `parts` */
    SENDER_PUT,          /* file `file` whole as `key` */
    SENDER_COPY,         /* `from` to `key` */
    SENDER_PUT_MANIFEST, /* as `key` */
    SENDER_WAIT,         /* `wait_ns`, then call next again */
    SENDER_DONE,
    SENDER_FAILED /* `status`: of the last failed operation */
};

struct sender_order {
    enum sender_action action;
    char key[OBJECT_KEY_SIZE]; /* of LIST and LIST_UPLOADS: the prefix */
    char from[OBJECT_KEY_SIZE];
    size_t file;
    uint64_t offset, size_bytes;
    uint32_t crc32c;
    unsigned number;
    const struct object_upload *upload;
    const struct object_list *parts;
    uint64_t wait_ns;
    bool for_others; /* of WAIT: no failure, other nodes are still sending */
    int status;
};

struct sender_answer {
    int status;
    struct object_list list;     /* taken */
    struct manifest earlier;     /* taken */
    struct object_upload upload; /* of BEGIN */
    char tag[OBJECT_TAG_SIZE];   /* of PUT_PART */
};

struct object_sender;

struct object_sender_options {
    const struct manifest *manifest; /* sealed; outlives the sender */
    const char *manifest_sha256;
    const char *prefix;  /* of the store's settings */
    const char *job;     /* name in keys; NULL: from @manifest */
    uint64_t part_bytes; /* a multiple of MANIFEST_CHUNK_BYTES; 0: SENDER_PART_BYTES. Larger if a
                            file would have too many parts */
    const bool *left_to_others; /* of each file: another node sends it; copied; NULL: none */
    bool without_manifest;      /* done when this node's files are in the store: another node puts
                                   the manifest */
};

/** object_sender_new() - make a sender; 0, -ENOMEM, -ENAMETOOLONG */
int object_sender_new(const struct object_sender_options *options,
                      struct object_sender **ret_sender) CHECK_RESULT;
void object_sender_free(struct object_sender *sender);

/**
 * object_sender_next() - get the current order, the same until object_sender_answer() (WAIT: until
 * object_sender_waited())
 */
void object_sender_next(struct object_sender *sender, struct sender_order *ret_order);
/** object_sender_answer() - report the result of the current order */
void object_sender_answer(struct object_sender *sender, struct sender_answer *answer);
void object_sender_waited(struct object_sender *sender);

/** object_sender_progress() - get the bytes in the store and the total */
void object_sender_progress(const struct object_sender *sender, uint64_t *ret_done,
                            uint64_t *ret_total);
/** object_sender_part_bytes() - return the bytes of the largest order */
uint64_t object_sender_part_bytes(const struct object_sender *sender);
