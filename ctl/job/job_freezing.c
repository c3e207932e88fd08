#include "ctl/job/job_freezing.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "elastic/job/job_schema.h"
#include "elastic/job/job_value.h"

#define POLICY(name) (1u << JOB_FREEZE_##name)
#define ANY_POLICY   (POLICY(GRADIENT) | POLICY(SCHEDULE) | POLICY(PLASTICITY) | POLICY(BUDGET))

/* The policies that read a key (elastic/step/freeze.c). `from_start` and `cache_mb` need none. */
static const struct reader {
    const char *path;
    unsigned policies;
    bool bounds_from_start; /* with from_start, at most all layers */
} readers[] = {
    {"elastic.freeze.alpha", POLICY(GRADIENT) | POLICY(SCHEDULE) | POLICY(BUDGET), false},
    {"elastic.freeze.every", ANY_POLICY, false},
    {"elastic.freeze.keep_active", ANY_POLICY, true},
    {"elastic.freeze.after", ANY_POLICY, false},
    {"elastic.freeze.tolerance", POLICY(PLASTICITY), false},
    {"elastic.freeze.patience", POLICY(PLASTICITY), false},
    {"elastic.freeze.budget", POLICY(BUDGET), false},
    {"elastic.freeze.guard", ANY_POLICY, false},
    {"elastic.freeze.thaw", ANY_POLICY, false},
};

/* Return the decisions (measurements with `plasticity`) until a layer can freeze. */
static uint64_t least_decisions(const struct job_freezing *freezing)
{
    return freezing->policy == JOB_FREEZE_PLASTICITY ? 2 * (uint64_t)freezing->patience + 1 : 1;
}

bool job_freezing_hint(const struct job_spec *spec, char ret_words[JOB_FREEZING_WORDS_SIZE])
{
    const struct job_freezing *freezing = &spec->elastic.freeze;
    bool plasticity = freezing->policy == JOB_FREEZE_PLASTICITY;
    uint64_t first;

    if (freezing->policy == JOB_FREEZE_NONE)
        return false;
    if (!__builtin_mul_overflow(least_decisions(freezing), freezing->every, &first) &&
        !__builtin_add_overflow(freezing->after, first, &first) && first <= spec->train.steps)
        return false;
    snprintf(ret_words, JOB_FREEZING_WORDS_SIZE,
             "no layer can freeze: the first could after more steps than the %" PRIu64
             " of train.steps (elastic.freeze.after + %" PRIu64 " x elastic.freeze.every%s)",
             spec->train.steps, least_decisions(freezing),
             plasticity ? "; 2 x patience + 1 measurements" : "");
    return true;
}

static bool is_set(const struct job_spec *spec, const struct schema_key *key)
{
    AUTO_JSON json_t *value = job_value_encode(key, spec);

    return value && !job_value_is_default(key, value);
}

bool job_freezing_unused(const struct job_spec *spec, char ret_words[JOB_FREEZING_WORDS_SIZE])
{
    unsigned policy = spec->elastic.freeze.policy, count = 0;
    AUTO_JSON json_t *word = job_value_encode(schema_find("elastic.freeze.policy"), spec);
    size_t used = 0;

    for (size_t i = 0; i < ARRAY_COUNT(readers); i++) {
        bool bounds = readers[i].bounds_from_start && spec->elastic.freeze.from_start > 0;
        if ((readers[i].policies >> policy & 1) != 0 || bounds ||
            !is_set(spec, schema_find(readers[i].path)))
            continue;
        used += (size_t)snprintf(ret_words + used, JOB_FREEZING_WORDS_SIZE - used, "%s%s",
                                 count++ > 0 ? ", " : "", schema_last_word(readers[i].path));
    }
    if (count > 0)
        snprintf(ret_words + used, JOB_FREEZING_WORDS_SIZE - used,
                 " of elastic.freeze %s no effect with policy %s", count == 1 ? "has" : "have",
                 json_string_value(word));
    return count > 0;
}
