#include "elastic/plan/plan_words.h"

#include <stdio.h>
#include <string.h>

static const char *const reasons[] = {
    [PLAN_REASON_START] = "start",         [PLAN_REASON_FREEZE] = "freeze",
    [PLAN_REASON_SCALE] = "scale",         [PLAN_REASON_JOIN] = "join",
    [PLAN_REASON_DRAIN] = "drain",         [PLAN_REASON_FAILURE] = "failure",
    [PLAN_REASON_PAUSE] = "pause",         [PLAN_REASON_RESUME] = "resume",
    [PLAN_REASON_CANCEL] = "cancel",       [PLAN_REASON_REFUSED] = "refused",
    [PLAN_REASON_STRAGGLER] = "straggler", [PLAN_REASON_UPGRADE] = "upgrade",
};

static const char *const sources[] = {
    [PLAN_SOURCE_FRESH] = "fresh",
    [PLAN_SOURCE_MEMORY] = "memory",
    [PLAN_SOURCE_CHECKPOINT] = "checkpoint",
};

static const char *const recomputations[] = {
    [PLAN_RECOMPUTE_NONE] = "none",
    [PLAN_RECOMPUTE_ATTENTION] = "attention",
    [PLAN_RECOMPUTE_FULL] = "full",
};

const char *plan_layout_words(unsigned stages, unsigned replicas, char ret_words[LAYOUT_WORDS_SIZE])
{
    snprintf(ret_words, LAYOUT_WORDS_SIZE, "%u stage%s x %u replica%s", stages,
             stages == 1 ? "" : "s", replicas, replicas == 1 ? "" : "s");
    return ret_words;
}

bool plan_says_layout(const struct plan *plan)
{
    char words[LAYOUT_WORDS_SIZE], change[LAYOUT_WORDS_SIZE];
    snprintf(change, sizeof(change), "-> %u x %u,", plan->layout.stage_count,
             plan->layout.replica_count);
    return strstr(plan->change.text, change) ||
           strstr(plan->change.text,
                  plan_layout_words(plan->layout.stage_count, plan->layout.replica_count, words));
}

static bool find_word(const char *const *words, unsigned count, const char *word,
                      unsigned *ret_index)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0) {
            *ret_index = i;
            return true;
        }
    return false;
}

const char *plan_reason_word(enum plan_reason reason)
{
    assert(reason < ARRAY_COUNT(reasons));
    return reasons[reason];
}

const char *plan_source_word(enum plan_source source)
{
    assert(source < ARRAY_COUNT(sources));
    return sources[source];
}

const char *plan_recompute_word(enum plan_recompute recompute)
{
    assert(recompute < ARRAY_COUNT(recomputations));
    return recomputations[recompute];
}

bool plan_recompute_parse(const char *word, enum plan_recompute *ret_recompute)
{
    unsigned index;
    bool found = find_word(recomputations, ARRAY_COUNT(recomputations), word, &index);
    if (found)
        *ret_recompute = (enum plan_recompute)index;
    return found;
}

bool plan_reason_parse(const char *word, enum plan_reason *ret_reason)
{
    unsigned index;
    bool found = find_word(reasons, ARRAY_COUNT(reasons), word, &index);
    if (found)
        *ret_reason = (enum plan_reason)index;
    return found;
}

bool plan_source_parse(const char *word, enum plan_source *ret_source)
{
    unsigned index;
    bool found = find_word(sources, ARRAY_COUNT(sources), word, &index);
    if (found)
        *ret_source = (enum plan_source)index;
    return found;
}
