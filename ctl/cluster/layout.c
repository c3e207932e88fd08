#include "ctl/cluster/layout.h"

#include <inttypes.h>
#include <stdio.h>

#include "ctl/view/format.h"
#include "ctl/view/text_table.h"

const char *layout_words(const struct plan *plan, char text[LAYOUT_WORDS_SIZE])
{
    if (!plan || !plan->layout.worker_count)
        snprintf(text, LAYOUT_WORDS_SIZE, "nothing runs");
    else
        plan_layout_words(plan->layout.stage_count, plan->layout.replica_count, text);
    return text;
}

int layout_waits_append(const struct cluster_job *job, const char *head, struct bytes *into)
{
    const struct progress_record *progress = &job->progress;
    char words[LAYOUT_WORDS_SIZE];

    if (!cluster_job_change_waits(job) || progress->stages == 0)
        return 0;
    return bytes_append_format(into, "%s%" PRIu64 ": %s, until generation %" PRIu64 " begins\n",
                               head, progress->generation,
                               plan_layout_words(progress->stages, progress->replicas, words),
                               job->plan->generation);
}

/* Units below the boundary are the embedding and both sublayers of each frozen layer. */
static const char *frozen_word(const struct plan_layout *layout, unsigned stage,
                               unsigned frozen_layers)
{
    unsigned boundary = frozen_layers ? 2 * frozen_layers + 1 : 0;

    if (layout->stage_first_unit[stage + 1] <= boundary)
        return "frozen";
    return layout->stage_first_unit[stage] < boundary ? "partly frozen" : "";
}

static void worker_words(const struct plan_layout *layout, unsigned stage, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned replica = 0; replica < layout->replica_count && used < size; replica++) {
        const struct plan_worker *worker =
            &layout->workers[plan_layout_rank(layout, replica, stage)];
        used += (size_t)snprintf(text + used, size - used, "%s%s/%u", replica ? " " : "",
                                 worker->node, worker->slot);
    }
    int shadow = plan_layout_shadow_of(layout, stage);
    if (shadow >= 0 && used < size)
        snprintf(text + used, size - used, "  shadow %s/%u", layout->workers[shadow].node,
                 layout->workers[shadow].slot);
}

int layout_append(const struct plan *plan, unsigned frozen_layers, unsigned indent,
                  struct bytes *into)
{
    CLEANUP(text_table_done) struct text_table table = {0};
    char units[FORMAT_UNITS_SIZE], workers[512];

    if (!plan || !plan->layout.worker_count)
        return 0;
    text_table_init_plain(&table, 4);
    for (unsigned stage = 0; stage < plan->layout.stage_count; stage++) {
        worker_words(&plan->layout, stage, workers, sizeof(workers));
        text_table_cell(&table, "%*sstage %u", (int)indent, "", stage);
        text_table_cell(&table, "%s",
                        format_units(plan->layout.stage_first_unit[stage],
                                     plan->layout.stage_first_unit[stage + 1],
                                     plan_layout_unit_count(&plan->layout), units));
        text_table_cell(&table, "%s", workers);
        text_table_cell(&table, "%s", frozen_word(&plan->layout, stage, frozen_layers));
    }
    return text_table_append(&table, into);
}
