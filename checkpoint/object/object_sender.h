/*
 * What to do next to have a checkpoint in the store: a state machine without I/O and clock.
 *
 * It is asked for an order, which somebody carries out, and told the result. The first orders look
 * at what is there, so that an upload which a crash or an outage has cut off goes on where it
 * stopped: objects that are there are skipped, parts of begun uploads too. Frozen units' files that
 * an older checkpoint of the job has in the store are copied there. The manifest comes when
 * everything else is done.
 *
 * What failed and may pass is tried again, later each time, OBJECT_TRIES_MAX times in a row; then
 * the whole is given up, and whoever wants it begins again with a new sender. An upload that the
 * store does not know any more is begun anew, SENDER_RESTARTS_MAX times.
 *
 * Files may be left to other nodes. Before the manifest comes the sender looks again and again
 * whether they are there; after SENDER_OTHERS_LOOKS looks at which nothing had come it sends what
 * is missing itself: the parts that somebody else has begun with are good for it too.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/object/object_catalog.h"
#include "checkpoint/object/object_retry.h"

#define SENDER_RESTARTS_MAX 4
#define SENDER_PART_BYTES   (16u << 20)
#define SENDER_OTHERS_NS    2000000000ull /* between looks at what other nodes have sent */
#define SENDER_OTHERS_LOOKS 30            /* without news: then it is ours to send */

enum sender_action {
    SENDER_LIST,         /* all keys of the job */
    SENDER_READ_EARLIER, /* the manifest of an older checkpoint, `key` of `size_bytes` */
    SENDER_LIST_UPLOADS, /* begun ones in the checkpoint's folder */
    SENDER_LIST_PARTS,   /* of `key`, `upload` */
    SENDER_BEGIN,        /* an upload of `key` */
    SENDER_PUT_PART,     /* `number`: `size_bytes` from `offset` of file `file` */
    SENDER_FINISH,       /* `upload` of `key` with `parts` */
    SENDER_PUT,          /* file `file` whole as `key` */
    SENDER_COPY,         /* `from` to `key` */
    SENDER_PUT_MANIFEST, /* as `key` */
    SENDER_WAIT,         /* `wait_ns`, then ask again */
    SENDER_DONE,
    SENDER_FAILED /* `status`: of the operation that failed last */
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
    bool for_others; /* of WAIT: nothing failed, other nodes are still sending */
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
    const char *job;     /* as keys have it; NULL: as @manifest says */
    uint64_t part_bytes; /* a multiple of MANIFEST_CHUNK_BYTES; 0: SENDER_PART_BYTES. More where a
                            file would have too many parts */
    const bool *left_to_others; /* of each file: another node sends it; copied; NULL: none */
    bool without_manifest;      /* done when our files are there: another node puts the manifest */
};

/** object_sender_new() - 0, -ENOMEM, -ENAMETOOLONG */
int object_sender_new(const struct object_sender_options *options,
                      struct object_sender **ret_sender) CHECK_RESULT;
void object_sender_free(struct object_sender *sender);

/** object_sender_next() - the same order until it is answered (WAIT: until object_sender_waited())
 */
void object_sender_next(struct object_sender *sender, struct sender_order *ret_order);
/** object_sender_answer() - the order of before has been carried out, or has failed */
void object_sender_answer(struct object_sender *sender, struct sender_answer *answer);
void object_sender_waited(struct object_sender *sender);

/** object_sender_progress() - bytes that are in the store, of how many */
void object_sender_progress(const struct object_sender *sender, uint64_t *ret_done,
                            uint64_t *ret_total);
/** object_sender_part_bytes() - of the largest order */
uint64_t object_sender_part_bytes(const struct object_sender *sender);
