/*
 * Alarms of this worker for an operator: one per kind of fault, sent once when it begins, again
 * when its cause changes, and once when it is over. The text of an alarm names no step, so a disk
 * that stays full is the same alarm at every checkpoint.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "elastic/messages/control.h"

enum alarm_about { ALARM_DIVERGENCE, ALARM_REPLAY, ALARM_CHECKPOINT, ALARM_METRICS, ALARM_COUNT };

struct alarms {
    char texts[ALARM_COUNT][CONTROL_TEXT_SIZE]; /* "": nothing is wrong */
};

/** alarms_set() - set an alarm; "" clears it. Return: true if alarms_shown() has changed */
bool alarms_set(struct alarms *alarms, enum alarm_about about, const char *text);

/** alarms_shown() - return the gravest active alarm, or "" */
const char *alarms_shown(const struct alarms *alarms);

/**
 * alarms_of_checkpoint() - format the reason why a checkpoint could not be written to @folder, and
 * the remedy
 * @error: the failure; where the code alone explains it, step and file are left out
 */
void alarms_of_checkpoint(const char *folder, const struct error *error,
                          char ret_text[CONTROL_TEXT_SIZE]);
