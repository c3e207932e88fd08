#include "lib/elastic/sample_report.h"

#include <string.h>

void sample_report(struct worker_report *report, unsigned slot)
{
    memset(report, 0, sizeof(*report));
    report->slot = slot;
    report->instance = 0xffffffffffffffffu - slot;
    report->phase = WORKER_STUCK;
    report->generation = 3;
    report->root = true;
    report->applied_step = 41;
    report->held_first_unit = 2;
    report->held_unit_count = 4;
    report->old_first_unit = 0;
    report->old_unit_count = 3;
    report->extra_count = 2;
    report->extras[0] = (struct report_extra){7, 2, true};
    report->extras[1] = (struct report_extra){9, 1, false};
    report->holds = true;
    step_record_init(&report->record, 42, 6, 8);
    report->record.unit_squares[2] = 0.1;
    report->record.lane_losses[7] = -0.0;
    report->frozen_layers = 1;
    report->lost_count = 2;
    strcpy(report->lost[0], "b/0");
    strcpy(report->lost[1], "b/1");
    report->unreached_count = 2;
    report->unreached[0] = 2;
    report->unreached[1] = 5;
    strcpy(report->text, "link to b/0: connection reset");
}
