/* What a plan says in words: its enumerations in JSON, its layout for people. */
#pragma once

#include "elastic/plan/plan.h"

#define PLAN_WORD_SIZE 16

#define LAYOUT_WORDS_SIZE 64

/** plan_layout_words() - "3 stages x 1 replica", for people */
const char *plan_layout_words(unsigned stages, unsigned replicas,
                              char ret_words[LAYOUT_WORDS_SIZE]);

/** plan_says_layout() - the reason of @plan names its layout, in words or as "-> 3 x 1" */
bool plan_says_layout(const struct plan *plan);

/** plan_reason_parse(), plan_source_parse(), plan_recompute_parse() - false when @word is none of
 * them */
bool plan_reason_parse(const char *word, enum plan_reason *ret_reason);
bool plan_source_parse(const char *word, enum plan_source *ret_source);
bool plan_recompute_parse(const char *word, enum plan_recompute *ret_recompute);
