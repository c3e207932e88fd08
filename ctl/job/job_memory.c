#include "ctl/job/job_memory.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/size_words.h"
#include "ctl/view/text_table.h"
#include "elastic/job/job_spec.h"
#include "elastic/planner/planned_worker.h"

#define ROWS_SHOWN 16

static uint64_t planned_of(const struct cluster *cluster, const struct cluster_job *job,
                           unsigned rank)
{
    const struct plan_worker *worker = &job->plan->layout.workers[rank];
    struct error unread = {0};
    const struct cluster_node *node = cluster_find_node(cluster, worker->node, &unread);
    bool known = node && worker->slot < node->record.slot_count; /* else taken for a CPU slot */
    bool gpu = known && !strcmp(node->record.slots[worker->slot].kind, "cuda");

    return planned_worker_bytes(job->spec, &job->plan->layout, rank, gpu,
                                known ? node->record.slots[worker->slot].thread_count : 1);
}

static uint64_t measured_of(const struct worker_list *list, const struct plan *plan,
                            const struct plan_worker *worker)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct worker_info *info = &list->workers[i];
        if (info->slot == worker->slot && !strcmp(info->node, worker->node) &&
            info->generation == plan->generation)
            return info->memory_bytes;
    }
    return 0;
}

int job_memory_of(const struct cluster *cluster, const struct cluster_job *job,
                  const struct worker_list *list, struct job_memory **ret_memory)
{
    const struct plan *plan = job->plan;
    struct job_memory *memory = calloc(plan->layout.worker_count + 1u, sizeof(*memory));

    if (!memory)
        return -ENOMEM;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        const struct plan_worker *worker = &plan->layout.workers[rank];
        struct job_memory *one = &memory[rank];
        *one = (struct job_memory){
            .slot = worker->slot,
            .rank = rank,
            .stage = rank % plan->layout.stage_count,
            .replica = rank / plan->layout.stage_count,
            .planned_bytes = planned_of(cluster, job, rank),
            .measured_bytes = measured_of(list, plan, worker),
        };
        memcpy(one->node, worker->node, sizeof(one->node));
        if (!one->planned_bytes) {
            free(memory);
            return -ENOMEM;
        }
    }
    *ret_memory = memory;
    return 0;
}

json_t *job_memory_json(const struct job_memory *memory, unsigned count)
{
    AUTO_JSON json_t *array = json_array();

    for (unsigned i = 0; i < count; i++) {
        const struct job_memory *one = &memory[i];
        json_t *row = json_pack(
            "{s:i, s:s, s:i, s:i, s:i, s:I, s:o}", "rank", (int)one->rank, "node", one->node,
            "slot", (int)one->slot, "stage", (int)one->stage, "replica", (int)one->replica,
            "planned_bytes", (json_int_t)one->planned_bytes, "measured_bytes",
            one->measured_bytes ? json_integer((json_int_t)one->measured_bytes) : json_null());
        if (json_array_append_new(array, row))
            return NULL;
    }
    return json_incref(array);
}

int job_memory_append(const struct job_memory *memory, unsigned count, struct bytes *into)
{
    CLEANUP(text_table_done) struct text_table table = {0};
    char planned[SIZE_WORDS_SIZE], measured[SIZE_WORDS_SIZE];

    if (!count)
        return 0;
    text_table_init(&table, "MEMORY|#STAGE.REPLICA|#PLANNED|#MEASURED");
    for (unsigned i = 0; i < MIN(count, (unsigned)ROWS_SHOWN); i++) {
        text_table_cell(&table, "%s/%u", memory[i].node, memory[i].slot);
        text_table_cell(&table, "%u.%u", memory[i].stage, memory[i].replica);
        text_table_cell(&table, "%s", size_words(memory[i].planned_bytes, planned));
        text_table_cell(&table, "%s",
                        memory[i].measured_bytes ? size_words(memory[i].measured_bytes, measured)
                                                 : "-");
    }
    int status = text_table_append(&table, into);
    return status || count <= ROWS_SHOWN
               ? status
               : bytes_append_format(into, "and %u more; --json has all\n", count - ROWS_SHOWN);
}
