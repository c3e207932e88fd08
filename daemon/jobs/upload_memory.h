/* Remember this daemon's uploads of a job's checkpoints to the object store. The memory is per job,
 * so that two jobs with failing uploads do not reset each other's pause. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "membership/kv/records.h"

struct upload_memory {
    char failed_sha256[RECORD_DIGEST_SIZE]; /* manifest; not retried before retry_at_ns; "": none */
    uint64_t retry_at_ns;
    char helped_sha256[RECORD_DIGEST_SIZE]; /* this node's files are uploaded */
    char sent_sha256[RECORD_DIGEST_SIZE];   /* complete, its record is in flight */
    bool tried; /* access to the store was tested (daemon/checkpoint/upload.h) */
};

/** upload_memory_failed() - note a failed upload, to be retried at @retry_at_ns. Return: whether
 * the same upload had failed before */
bool upload_memory_failed(struct upload_memory *memory, const char *manifest_sha256,
                          uint64_t retry_at_ns);
/** upload_memory_rests() - return whether that upload has failed and is not due at @now_ns */
bool upload_memory_rests(const struct upload_memory *memory, const char *manifest_sha256,
                         uint64_t now_ns);
/** upload_memory_sent(), upload_memory_helped() - note that the upload, or this node's part of it,
 * is done */
void upload_memory_sent(struct upload_memory *memory, const char *manifest_sha256);
void upload_memory_helped(struct upload_memory *memory, const char *manifest_sha256);
