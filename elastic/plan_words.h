/* Enumerations of a plan as the words of its JSON. */
#pragma once

#include "elastic/plan.h"

#define PLAN_WORD_SIZE 16

/** plan_reason_parse(), plan_source_parse() - false when @word is none of them */
bool plan_reason_parse(const char *word, enum plan_reason *ret_reason);
bool plan_source_parse(const char *word, enum plan_source *ret_source);
