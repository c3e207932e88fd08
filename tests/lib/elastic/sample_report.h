/* A report with every part in use: stuck at HOLD with a partial record and a lost peer. */
#pragma once

#include "elastic/messages/report.h"

/** sample_report() - fill a report of @slot */
void sample_report(struct worker_report *report, unsigned slot);
