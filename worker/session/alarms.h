/*
 * What an operator must see of this worker: one alarm for each thing that can be wrong, told once
 * when it begins, again when it is about something else, and once when it is over. So the text of
 * an alarm names no step: a disk that stays full is the same alarm at every checkpoint.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "elastic/messages/control.h"

enum alarm_about { ALARM_DIVERGENCE, ALARM_CHECKPOINT, ALARM_METRICS, ALARM_COUNT };

struct alarms {
    char texts[ALARM_COUNT][CONTROL_TEXT_SIZE]; /* "": nothing is wrong */
};

/** alarms_set() - "" clears it. Return: true when alarms_told() is another one now */
bool alarms_set(struct alarms *alarms, enum alarm_about about, const char *text);

/** alarms_told() - the gravest that is out, or "" */
const char *alarms_told(const struct alarms *alarms);

/**
 * alarms_of_checkpoint() - why a checkpoint could not be written to @folder, and what to do
 * @error: what happened; where the code alone explains it, step and file are left out
 */
void alarms_of_checkpoint(const char *folder, const struct error *error,
                          char ret_text[CONTROL_TEXT_SIZE]);
