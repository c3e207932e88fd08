#include "membership/kv/keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"

#define ROOT "/firn/v1/"

/* A key always fits: names have at most 63 bytes, and leaves are firn's own words. */
static char *make(char key[KV_KEY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static char *make(char key[KV_KEY_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(key, KV_KEY_MAX, format, arguments);
    va_end(arguments);
    assert(length > 0 && length < KV_KEY_MAX);
    return key;
}

char *keys_cluster(char key[KV_KEY_MAX], const char *cluster)
{
    return make(key, ROOT "%s/", cluster);
}

char *keys_node(char key[KV_KEY_MAX], const char *cluster, const char *node)
{
    return make(key, ROOT "%s/nodes/%s", cluster, node);
}

char *keys_leader(char key[KV_KEY_MAX], const char *cluster)
{
    return make(key, ROOT "%s/leader", cluster);
}

char *keys_excused(char key[KV_KEY_MAX], const char *cluster, const char *node)
{
    return make(key, ROOT "%s/excused/%s", cluster, node);
}

char *keys_nodes(char key[KV_KEY_MAX], const char *cluster)
{
    return make(key, ROOT "%s/nodes/", cluster);
}

char *keys_jobs(char key[KV_KEY_MAX], const char *cluster)
{
    return make(key, ROOT "%s/jobs/", cluster);
}

char *keys_said(char key[KV_KEY_MAX], const char *cluster, const char *job, const char *leaf)
{
    return make(key, ROOT "%s/said/%s/%s", cluster, job, leaf);
}

char *keys_job(char key[KV_KEY_MAX], const char *cluster, const char *job, const char *leaf)
{
    return make(key, ROOT "%s/jobs/%s/%s", cluster, job, leaf);
}

char *keys_report(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t generation,
                  const char *node)
{
    return make(key, ROOT "%s/said/%s/reports/%" PRIu64 "/%s", cluster, job, generation, node);
}

char *keys_checkpoint(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step)
{
    return make(key, ROOT "%s/jobs/%s/checkpoints/%010" PRIu64, cluster, job, step);
}

char *keys_object(char key[KV_KEY_MAX], const char *cluster, const char *job, uint64_t step)
{
    return make(key, ROOT "%s/jobs/%s/objects/%010" PRIu64, cluster, job, step);
}

/* Return the part of @key after "<root><cluster>/<folder>/", or NULL for another prefix. */
static const char *below(const char *key, const char *cluster, const char *folder)
{
    char prefix[KV_KEY_MAX];
    make(prefix, ROOT "%s/%s/", cluster, folder);
    size_t length = strlen(prefix);
    return strncmp(key, prefix, length) == 0 ? key + length : NULL;
}

/* Copy the first @length bytes of @text as a name; check it, because keys are external input. */
static bool copy_name(const char *text, size_t length, char ret_name[NAME_SIZE])
{
    char name[NAME_SIZE];
    if (length >= sizeof(name))
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    if (!name_valid(name))
        return false;
    memcpy(ret_name, name, length + 1);
    return true;
}

static bool match_leaf(const char *key, const char *cluster, const char *folder, char ret_job[64],
                       char ret_leaf[128])
{
    const char *job = below(key, cluster, folder);
    const char *slash = job ? strchr(job, '/') : NULL;
    size_t leaf_length = slash ? strlen(slash + 1) : 0;
    if (leaf_length == 0 || leaf_length >= 128 || !copy_name(job, (size_t)(slash - job), ret_job))
        return false;
    memcpy(ret_leaf, slash + 1, leaf_length + 1);
    return true;
}

bool keys_match_job(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128])
{
    return match_leaf(key, cluster, "jobs", ret_job, ret_leaf);
}

bool keys_match_said(const char *key, const char *cluster, char ret_job[64], char ret_leaf[128])
{
    return match_leaf(key, cluster, "said", ret_job, ret_leaf);
}

bool keys_match_node(const char *key, const char *cluster, char ret_node[64])
{
    const char *node = below(key, cluster, "nodes");
    return node && copy_name(node, strlen(node), ret_node);
}
