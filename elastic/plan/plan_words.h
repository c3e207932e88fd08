/* Words of a plan: names of its enumerations in JSON, and its layout for messages. */
#pragma once

#include "elastic/plan/plan.h"

#define PLAN_WORD_SIZE 16

#define LAYOUT_WORDS_SIZE 64

/** plan_layout_words() - write "3 stages x 1 replica" for messages */
const char *plan_layout_words(unsigned stages, unsigned replicas,
                              char ret_words[LAYOUT_WORDS_SIZE]);

/**
 * plan_says_layout() - return whether the reason of @plan names its layout, in words or as "-> 3 x
 * 1"
 */
bool plan_says_layout(const struct plan *plan);

/**
 * plan_reason_parse(), plan_source_parse(), plan_recompute_parse() - parse @word; false when it is
 * unknown
 */
bool plan_reason_parse(const char *word, enum plan_reason *ret_reason);
bool plan_source_parse(const char *word, enum plan_source *ret_source);
bool plan_recompute_parse(const char *word, enum plan_recompute *ret_recompute);
