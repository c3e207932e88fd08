#include "ctl/cluster/layout.h"

#include <stdio.h>

#include "ctl/view/format.h"
#include "ctl/view/text_table.h"

const char *layout_words(const struct plan *plan, char text[LAYOUT_WORDS_SIZE])
{
    if (!plan || !plan->worker_count)
        snprintf(text, LAYOUT_WORDS_SIZE, "nothing runs");
    else
        plan_layout_words(plan->stage_count, plan->replica_count, text);
    return text;
}

/* Units below the boundary are the embedding and both sublayers of each frozen layer. */
static const char *frozen_word(const struct plan *plan, unsigned stage, unsigned frozen_layers)
{
    unsigned boundary = frozen_layers ? 2 * frozen_layers + 1 : 0;

    if (plan->stage_first_unit[stage + 1] <= boundary)
        return "frozen";
    return plan->stage_first_unit[stage] < boundary ? "partly frozen" : "";
}

static void worker_words(const struct plan *plan, unsigned stage, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned replica = 0; replica < plan->replica_count && used < size; replica++) {
        const struct plan_worker *worker = &plan->workers[plan_rank(plan, replica, stage)];
        used += (size_t)snprintf(text + used, size - used, "%s%s/%u", replica ? " " : "",
                                 worker->node, worker->slot);
    }
    int shadow = plan_shadow_of(plan, stage);
    if (shadow >= 0 && used < size)
        snprintf(text + used, size - used, "  shadow %s/%u", plan->workers[shadow].node,
                 plan->workers[shadow].slot);
}

int layout_append(const struct plan *plan, unsigned frozen_layers, unsigned indent,
                  struct bytes *into)
{
    CLEANUP(text_table_done) struct text_table table = {0};
    char units[FORMAT_UNITS_SIZE], workers[512];

    if (!plan || !plan->worker_count)
        return 0;
    text_table_init_plain(&table, 4);
    for (unsigned stage = 0; stage < plan->stage_count; stage++) {
        worker_words(plan, stage, workers, sizeof(workers));
        text_table_cell(&table, "%*sstage %u", (int)indent, "", stage);
        text_table_cell(&table, "%s",
                        format_units(plan->stage_first_unit[stage],
                                     plan->stage_first_unit[stage + 1], plan_unit_count(plan),
                                     units));
        text_table_cell(&table, "%s", workers);
        text_table_cell(&table, "%s", frozen_word(plan, stage, frozen_layers));
    }
    return text_table_append(&table, into);
}
