/*
 * Merge the alarms of one job's workers on this node. Each worker that writes to a full disk
 * reports it at its own time. For operators this is one alarm, which begins once and ends when the
 * last worker's alarm ends.
 */
#pragma once

#include "elastic/messages/report.h"
#include "membership/kv/records.h"

struct slot_alarms {
    char texts[REPORT_WORKERS_MAX][RECORD_TEXT_SIZE]; /* by slot; "": none */
};

/** slot_alarms_set() - set the alarm of the worker on @slot; "": it is over
 * @ret_event: text for an event: the alarm, or "alarm over: " and the last alarm
 *
 * Return: whether to log the event */
bool slot_alarms_set(struct slot_alarms *alarms, unsigned slot, const char *text,
                     char ret_event[RECORD_TEXT_SIZE]);

/** slot_alarms_shown() - return one of the active alarms, or "" */
const char *slot_alarms_shown(const struct slot_alarms *alarms);
