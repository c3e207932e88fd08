#include "daemon/core/decode_cache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/json.h"
#include "daemon/core/checkpoint_entry.h"
#include "elastic/job/job_spec.h"

static void forget_plan(void *meaning)
{
    plan_free(meaning);
}

int decode_cache_plan(const struct mirror *mirror, const struct mirror_entry *entry,
                      struct plan **ret_plan, struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    struct plan *plan = entry->meaning;
    int status = 0;

    if (!plan) {
        status = json_parse(entry->value, strlen(entry->value), entry->key, &tree, error);
        if (!status)
            status = plan_decode(tree, &plan, error);
        if (status)
            return status;
        mirror_keep(mirror, entry, plan, forget_plan);
    }
    *ret_plan = plan_share(plan);
    return 0;
}

static void forget_report(void *meaning)
{
    munmap(meaning, sizeof(struct node_report));
}

/*
 * A report takes more than a megabyte, of which a node with few slots fills a page or two. Map it,
 * so that untouched pages take no memory, unless they are part of a huge page.
 */
static struct node_report *new_report(void)
{
    struct node_report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (report == MAP_FAILED)
        return NULL;
    (void)madvise(report, sizeof(*report), MADV_NOHUGEPAGE); /* best effort */
    return report;
}

const struct node_report *decode_cache_report(const struct mirror *mirror,
                                              const struct mirror_entry *entry)
{
    AUTO_JSON json_t *tree = NULL;
    struct node_report *report = entry->meaning;

    if (report)
        return report;
    if (json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL))
        return NULL;
    report = new_report();
    if (report && node_report_decode(tree, report, NULL)) {
        forget_report(report);
        return NULL;
    }
    if (report)
        mirror_keep(mirror, entry, report, forget_report);
    return report;
}

const struct state_record *decode_cache_state(const struct mirror *mirror,
                                              const struct mirror_entry *entry)
{
    AUTO_JSON json_t *tree = NULL;
    struct state_record *state = entry->meaning;

    if (state)
        return state;
    state = calloc(1, sizeof(*state));
    if (!state || json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        state_record_decode(tree, state, NULL)) {
        free(state);
        return NULL;
    }
    mirror_keep(mirror, entry, state, free);
    return state;
}

const struct desired_record *decode_cache_desired(const struct mirror *mirror,
                                                  const struct mirror_entry *entry)
{
    AUTO_JSON json_t *tree = NULL;
    struct desired_record *desired = entry->meaning;

    if (desired)
        return desired;
    desired = calloc(1, sizeof(*desired));
    if (!desired || json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        desired_record_decode(tree, desired, NULL)) {
        free(desired);
        return NULL;
    }
    mirror_keep(mirror, entry, desired, free);
    return desired;
}

static void forget_checkpoint(void *meaning)
{
    checkpoint_record_done(meaning);
    free(meaning);
}

const struct checkpoint_record *decode_cache_checkpoint(const struct mirror *mirror,
                                                        const struct mirror_entry *entry)
{
    struct checkpoint_record *record = entry->meaning;

    if (record)
        return record;
    record = calloc(1, sizeof(*record));
    if (!record || !checkpoint_entry_read(entry, record)) {
        free(record);
        return NULL;
    }
    mirror_keep(mirror, entry, record, forget_checkpoint);
    return record;
}

unsigned decode_cache_devices_min(const struct mirror *mirror, const struct mirror_entry *entry)
{
    AUTO_JSON json_t *tree = NULL;
    unsigned *least = entry->meaning;

    if (least)
        return *least;
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    if (!spec || json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        job_spec_decode(tree, entry->key, NULL, NULL, spec, NULL))
        return 0;
    unsigned devices_min = MAX(spec->elastic.devices_min, 1u);
    least = malloc(sizeof(*least));
    if (least) {
        *least = devices_min;
        mirror_keep(mirror, entry, least, free);
    }
    return devices_min;
}
