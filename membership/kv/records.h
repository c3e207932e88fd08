/*
 * The values of firn's keys: structures, and the JSON that firnd and firnctl write and read. Plans
 * and reports have their own formats in elastic/; all other values are here.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "membership/kv/kv.h"

#define RECORD_SLOTS_MAX      64
#define RECORD_OTHERS_MAX     3 /* kinds of devices of one node, besides the first */
#define RECORD_NUMERICS_SIZE  128
#define RECORD_TEXT_SIZE      512
#define RECORD_PATH_SIZE      1024
#define RECORD_DIGEST_SIZE    65
#define RECORD_SHARES_SIZE    (KV_VALUE_MAX / 8 * 5) /* their JSON is longer */
#define RECORD_STRAGGLERS_MAX 8
#define RECORD_DAMAGED_SIZE   320

/* Measured rates per second of a node's slots, which are all alike; 0: not measured. */
struct record_rates {
    double bf16_flops, tf32_flops, f32_flops; /* multiplications and additions of large products */
    double memory_bytes;                      /* of a copy: read and written */
    double link_bytes;                        /* between two slots of the node */
};

/* nodes/<node>, leased */
struct node_record {
    char host[ADDRESS_SIZE]; /* numeric address that links use */
    unsigned link_port;      /* of slot 0; slot s listens at link_port + s */
    char http[ADDRESS_SIZE]; /* "host:port" */
    char domain[NAME_SIZE];  /* nodes of one domain may fail together; empty: the node itself */
    uint64_t incarnation;    /* of the daemon process, random */
    bool draining;
    uint64_t drain_deadline_unix_ns; /* when a draining node leaves; 0: unknown */
    char version[32];
    /* Of its slots: equal text means equal results, to the bit; then those of other kinds of slots,
     * "" from the first unused entry. Their JSON keys are `arithmetic` and `other_arithmetic`. */
    char numerics_identity[RECORD_NUMERICS_SIZE];
    char other_numerics_identities[RECORD_OTHERS_MAX][RECORD_NUMERICS_SIZE];
    unsigned links; /* link protocol of the workers that the node starts; 0: an older firnd, which
                     * does not report it. Next: the protocol versions of its firnd
                     * (elastic/plan/versions.h) */
    unsigned control, control_oldest;
    struct record_rates rates;
    unsigned slot_count;
    struct {
        char kind[16];   /* "cpu", "cuda" */
        char device[96]; /* a GPU's UUID; empty for a CPU slot */
        unsigned thread_count;
        uint64_t memory_bytes;
        double speed;      /* relative to the reference slot */
        unsigned computes; /* 0: with `numerics_identity`, i: with other_numerics_identities[i - 1];
                              more: unknown */
        char bad[128];     /* why the slot is out of service; empty: in service */
        uint64_t retry_unix_ns; /* when the slot is retried, for display; 0: no automatic retry */
    } slots[RECORD_SLOTS_MAX];
};

/* jobs/<job>/desired */
enum record_wish { RECORD_RUNNING, RECORD_PAUSED, RECORD_CANCELLED };
struct desired_record {
    enum record_wish wish;
    unsigned devices, stages, replicas; /* 0: as in the spec / free */
};

/*
 * jobs/<job>/submission: a unique identity of one submission, across all clusters. Names of jobs
 * are reused; this identity is part of the name of the folder of the submission's checkpoints. A
 * job that an older firnctl submitted has none.
 */
#define RECORD_SUBMISSION_SIZE 17
struct submission_record {
    char id[RECORD_SUBMISSION_SIZE]; /* 1 to 16 hexadecimal digits, lower case */
};

/* said/<job>/state: written by the leader, on changes only */
struct state_record {
    char state[16]; /* "waiting", "preparing", "running", "recovering", "pausing", "paused", ... */
    char text[RECORD_TEXT_SIZE]; /* the reason, for operators */
    uint64_t unix_ns;
    uint64_t kept_until_unix_ns; /* when an ended job leaves the list; 0: unknown */
};

/* said/<job>/progress: written by rank 0's node, at most once a second */
struct progress_record {
    uint64_t generation, step, steps;
    unsigned frozen_layers, stages, replicas, workers;
    unsigned kept_units; /* whose outputs rank 0 loads, for kept_share of its samples; 0: none */
    double kept_share;
    double loss, grad_norm, validation_loss; /* NaN: unknown */
    double step_seconds, tokens_per_second, pause_seconds;
    uint64_t checkpoint_step;
    char alarm[RECORD_TEXT_SIZE];
    uint64_t unix_ns;
    /* Workers of the generation whose speed differs from the plan's
     * (elastic/plan/straggler.h). */
    unsigned straggler_count;
    struct {
        unsigned rank;
        double speed; /* relative to its peers */
    } stragglers[RECORD_STRAGGLERS_MAX];
};

/* jobs/<job>/checkpoints/<step> */
struct checkpoint_record {
    uint64_t step, generation, size_bytes, unix_ns;
    unsigned frozen_layers; /* of its state; 0 also if the record does not say */
    char path[RECORD_PATH_SIZE];
    char manifest_sha256[RECORD_DIGEST_SIZE];
    double stall_seconds, write_seconds;
    char node[NAME_SIZE]; /* node of the firnd that recorded it */
    /* Of a checkpoint with copies: the places of its shares (elastic/copies/copies.h), owned by the
     * record; NULL: the checkpoint is in one folder that all nodes share, at `path`. */
    char *shares;
    bool pinned; /* of a checkpoint with copies */
    /* Damage found by a leader, a worker or firnctl; "": none. A damaged checkpoint stays in the
     * list but is not used. */
    char damaged[RECORD_DAMAGED_SIZE];
};

/* jobs/<job>/objects/<step>: a checkpoint in the object store, or being uploaded */
enum record_object { RECORD_UPLOADING, RECORD_COMPLETE, RECORD_FAILED };
struct object_record {
    enum record_object state;
    uint64_t step, size_bytes, done_bytes, unix_ns;
    char manifest_sha256[RECORD_DIGEST_SIZE];
    char place[RECORD_PATH_SIZE]; /* "s3://bucket/prefix/job/step-...-.../" */
    char node[NAME_SIZE];         /* node of the firnd that uploads it */
    char text[RECORD_TEXT_SIZE];  /* why the upload failed or is retried; else empty */
};

/* Encoders return a new reference; NULL: memory is short. Decoders return 0 or -EINVAL with the key
 * in @error, the decoder of checkpoints also -ENOMEM; after an error there is nothing to free. */
json_t *node_record_encode(const struct node_record *record);
int node_record_decode(const json_t *tree, struct node_record *ret_record,
                       struct error *error) CHECK_RESULT;
json_t *desired_record_encode(const struct desired_record *record);
int desired_record_decode(const json_t *tree, struct desired_record *ret_record,
                          struct error *error) CHECK_RESULT;
json_t *submission_record_encode(const struct submission_record *record);
int submission_record_decode(const json_t *tree, struct submission_record *ret_record,
                             struct error *error) CHECK_RESULT;
json_t *state_record_encode(const struct state_record *record);
int state_record_decode(const json_t *tree, struct state_record *ret_record,
                        struct error *error) CHECK_RESULT;
json_t *progress_record_encode(const struct progress_record *record);
int progress_record_decode(const json_t *tree, struct progress_record *ret_record,
                           struct error *error) CHECK_RESULT;
json_t *checkpoint_record_encode(const struct checkpoint_record *record);
int checkpoint_record_decode(const json_t *tree, struct checkpoint_record *ret_record,
                             struct error *error) CHECK_RESULT;
/** checkpoint_record_done() - free the record's places; the record may be reused */
void checkpoint_record_done(struct checkpoint_record *record);
json_t *object_record_encode(const struct object_record *record);
int object_record_decode(const json_t *tree, struct object_record *ret_record,
                         struct error *error) CHECK_RESULT;
