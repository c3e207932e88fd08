#include "daemon/leader/retiring_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/core/decode_cache.h"
#include "daemon/core/view.h"
#include "membership/kv/keys.h"

/* Return the last key below the job's @leaf, which ends with a slash: the newest. */
static const struct mirror_entry *find_newest(const struct mirror *mirror, const char *cluster,
                                              const char *job, const char *leaf)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_job(prefix, cluster, job, leaf), &entries);

    return count ? &entries[count - 1] : NULL;
}

/* Return whether the newest checkpoint is in the object store. A job without a bucket has no
 * record of the object store. */
static bool is_stored(const struct mirror *mirror, const char *cluster, const char *job)
{
    const struct mirror_entry *sent = find_newest(mirror, cluster, job, "objects/");
    const struct mirror_entry *made = find_newest(mirror, cluster, job, "checkpoints/");
    AUTO_JSON json_t *tree = NULL;
    struct object_record record;

    if (!sent)
        return true;
    return made && !strcmp(strrchr(sent->key, '/'), strrchr(made->key, '/')) &&
           !json_parse(sent->value, strlen(sent->value), sent->key, &tree, NULL) &&
           !object_record_decode(tree, &record, NULL) && record.state == RECORD_COMPLETE;
}

/* Return the time at which @job is removed; 0: never. */
static uint64_t time_of(const struct mirror *mirror, const char *cluster, const char *job,
                        uint64_t keep_ns, uint64_t unix_ns, int64_t *ret_state_revision)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry = mirror_find(mirror, keys_said(key, cluster, job, "state"));
    const struct state_record *state = entry ? decode_cache_state(mirror, entry) : NULL;

    if (!state || !view_job_over(state->state) ||
        unix_ns < state->unix_ns + RETIRING_LEAST_S * NS_PER_SECOND ||
        !is_stored(mirror, cluster, job))
        return 0;
    *ret_state_revision = entry->mod_revision;
    return state->kept_until_unix_ns ? state->kept_until_unix_ns : state->unix_ns + keep_ns;
}

bool retiring_choose(const struct mirror *mirror, const char *cluster, uint64_t keep_ns,
                     uint64_t unix_ns, struct retiring_job *ret_job)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_jobs(prefix, cluster), &entries);
    unsigned over = 0;
    uint64_t first_ns = UINT64_MAX;

    for (size_t i = 0; keep_ns && i < count; i++) {
        char job[NAME_SIZE], leaf[128];
        int64_t state_revision;
        if (!keys_match_job(entries[i].key, cluster, job, leaf) || strcmp(leaf, "spec"))
            continue;
        uint64_t goes_ns = time_of(mirror, cluster, job, keep_ns, unix_ns, &state_revision);
        over += goes_ns != 0;
        if (!goes_ns || goes_ns >= first_ns)
            continue;
        first_ns = goes_ns;
        snprintf(ret_job->name, sizeof(ret_job->name), "%s", job);
        ret_job->spec_revision = entries[i].mod_revision;
        ret_job->state_revision = state_revision;
    }
    return first_ns <= unix_ns || over > RETIRING_JOBS_MAX;
}
