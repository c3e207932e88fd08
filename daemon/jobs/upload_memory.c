#include "daemon/jobs/upload_memory.h"

#include <stdio.h>
#include <string.h>

static void set(char digest[RECORD_DIGEST_SIZE], const char *manifest_sha256)
{
    snprintf(digest, RECORD_DIGEST_SIZE, "%s", manifest_sha256);
}

bool upload_memory_failed(struct upload_memory *memory, const char *manifest_sha256,
                          uint64_t retry_at_ns)
{
    bool again = !strcmp(memory->failed_sha256, manifest_sha256);

    set(memory->failed_sha256, manifest_sha256);
    memory->retry_at_ns = retry_at_ns;
    return again;
}

bool upload_memory_rests(const struct upload_memory *memory, const char *manifest_sha256,
                         uint64_t now_ns)
{
    return now_ns < memory->retry_at_ns && !strcmp(memory->failed_sha256, manifest_sha256);
}

void upload_memory_sent(struct upload_memory *memory, const char *manifest_sha256)
{
    set(memory->sent_sha256, manifest_sha256);
    memory->failed_sha256[0] = '\0';
}

void upload_memory_helped(struct upload_memory *memory, const char *manifest_sha256)
{
    set(memory->helped_sha256, manifest_sha256);
    memory->failed_sha256[0] = '\0';
}
