/*
 * The alarms of one job's workers on this node. A full disk is told of by each worker that writes
 * there, at its own time: for people that is one alarm, which begins once and ends with the last.
 */
#pragma once

#include "elastic/messages/report.h"
#include "membership/kv/records.h"

struct slot_alarms {
    char texts[REPORT_WORKERS_MAX][RECORD_TEXT_SIZE]; /* by slot; "": none */
};

/** slot_alarms_set() - what the worker on @slot says, "" when its alarm is over
 * @ret_event: the event's text: the alarm, or "alarm over: " and which one was the last
 *
 * Return: whether that is news */
bool slot_alarms_set(struct slot_alarms *alarms, unsigned slot, const char *text,
                     char ret_event[RECORD_TEXT_SIZE]);

/** slot_alarms_told() - an alarm that is out, or "" */
const char *slot_alarms_told(const struct slot_alarms *alarms);
