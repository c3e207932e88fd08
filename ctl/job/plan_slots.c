#include "ctl/job/plan_slots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parse memory in powers of 1024 for every suffix: memory sizes are powers of two. */
static int parse_memory(const char *text, uint64_t *ret_bytes)
{
    static const struct {
        const char *word;
        unsigned shift;
    } units[] = {{"", 0},    {"B", 0},    {"KiB", 10}, {"K", 10},  {"MiB", 20},
                 {"M", 20},  {"GiB", 30}, {"G", 30},   {"GB", 30}, {"MB", 20},
                 {"KB", 10}, {"TB", 40},  {"TiB", 40}, {"T", 40}};
    char *end;
    double value = strtod(text, &end);

    if (end == text || !(value > 0) || value > 1e12)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_COUNT(units); i++)
        if (!strcmp(end, units[i].word)) {
            double bytes = value * (double)(1ull << units[i].shift);
            if (bytes < 1 || bytes > 1e18)
                return -EINVAL;
            *ret_bytes = (uint64_t)bytes;
            return 0;
        }
    return -EINVAL;
}

int plan_slots_parse(const char *text, unsigned *ret_count, uint64_t *ret_memory_bytes)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);
    uint64_t memory_bytes = 0;

    if (end == text || text[0] == '-' || count < 1 || count > PLAN_SLOTS_EACH_MAX ||
        (*end && *end != '@'))
        return -EINVAL;
    if (*end && parse_memory(end + 1, &memory_bytes))
        return -EINVAL;
    *ret_count = (unsigned)count;
    *ret_memory_bytes = memory_bytes;
    return 0;
}

void plan_slots_node_name(unsigned index, char ret_name[NAME_SIZE])
{
    if (index < 26)
        snprintf(ret_name, NAME_SIZE, "%c", 'a' + (int)index);
    else
        snprintf(ret_name, NAME_SIZE, "n%u", index);
}

static struct slot_measured measured_of(const struct node_record *record)
{
    return (struct slot_measured){
        .flops_per_second = {[JOB_PRECISION_BF16] = record->rates.bf16_flops,
                             [JOB_PRECISION_TF32] = record->rates.tf32_flops,
                             [JOB_PRECISION_F32] = record->rates.f32_flops},
        .memory_bytes_per_second = record->rates.memory_bytes,
        .link_bytes_per_second = record->rates.link_bytes,
    };
}

int plan_slots_of(const struct cluster *cluster, struct planner_slot **ret_slots,
                  unsigned *ret_count, struct error *error)
{
    struct planner_slot *slots = calloc(cluster->node_count * RECORD_SLOTS_MAX + 1, sizeof(*slots));
    unsigned count = 0;

    if (!slots)
        return error_set(error, -ENOMEM, "no memory");
    for (size_t i = 0; i < cluster->node_count; i++) {
        const struct node_record *record = &cluster->nodes[i].record;
        for (unsigned s = 0; s < record->slot_count && !record->draining; s++) {
            if (record->slots[s].bad[0])
                continue;
            struct planner_slot *slot = &slots[count++];
            memcpy(slot->node, cluster->nodes[i].name, sizeof(slot->node));
            slot->slot = s;
            slot->memory_bytes = record->slots[s].memory_bytes;
            slot->speed = record->slots[s].speed;
            slot->gpu = !strcmp(record->slots[s].kind, "cuda");
            slot->threads = record->slots[s].thread_count;
            slot->measured = measured_of(record);
        }
    }
    *ret_slots = slots;
    *ret_count = count;
    return 0;
}

bool plan_slots_measured(const struct planner_slot *slots, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < JOB_PRECISIONS; k++)
            if (slots[i].measured.flops_per_second[k] > 0)
                return true;
    return false;
}

const char *plan_slots_time_words(const struct planner_slot *slots, unsigned count,
                                  enum job_precision precision,
                                  char ret_words[PLAN_SLOTS_WORDS_SIZE])
{
    bool gpus = count > 0;

    for (unsigned i = 0; i < count; i++)
        gpus = gpus && slots[i].gpu;
    if (plan_slots_measured(slots, count))
        snprintf(ret_words, PLAN_SLOTS_WORDS_SIZE,
                 "Times are estimates from arithmetic, bytes and the speed that nodes measured");
    else
        snprintf(ret_words, PLAN_SLOTS_WORDS_SIZE,
                 "No slot was measured: times assume %s of %.0f GFLOP/s and can be far off;\n"
                 "their ratios are more reliable",
                 gpus ? "GPUs" : "CPU slots", slot_rates(gpus, precision).flops_per_second / 1e9);
    return ret_words;
}
