/* What this daemon has done with a job's checkpoints in the object store: per job, so that two jobs
 * whose uploads fail do not let each other try again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "membership/kv/records.h"

struct upload_memory {
    char failed_sha256[RECORD_DIGEST_SIZE]; /* of the manifest; rests until retry_at_ns; "": none */
    uint64_t retry_at_ns;
    char helped_sha256[RECORD_DIGEST_SIZE]; /* this node's files are uploaded */
    char sent_sha256[RECORD_DIGEST_SIZE];   /* complete, its record is in flight */
    bool tried; /* the store, before the first upload (daemon/checkpoint/upload.h) */
};

/** upload_memory_failed() - note a failed upload, to be retried at @retry_at_ns. Return: whether
 * the same upload had failed before */
bool upload_memory_failed(struct upload_memory *memory, const char *manifest_sha256,
                          uint64_t retry_at_ns);
/** upload_memory_rests() - return whether that upload has failed, and rests at @now_ns */
bool upload_memory_rests(const struct upload_memory *memory, const char *manifest_sha256,
                         uint64_t now_ns);
/** upload_memory_sent(), upload_memory_helped() - note that the upload, or this node's part of it,
 * is done */
void upload_memory_sent(struct upload_memory *memory, const char *manifest_sha256);
void upload_memory_helped(struct upload_memory *memory, const char *manifest_sha256);
