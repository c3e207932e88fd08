/* firnctl top: show the work of every slot right now, and mark slow workers. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "ctl/cluster/layout.h"
#include "ctl/cluster/worker_list.h"
#include "ctl/command/commands.h"
#include "ctl/report/watch.h"
#include "ctl/view/format.h"
#include "ctl/view/output.h"
#include "ctl/view/terminal.h"
#include "ctl/view/text_table.h"

#define PERIOD_NS    NS_PER_SECOND
#define KEY_NS       (NS_PER_SECOND / 10) /* between two polls of the keyboard */
#define WIDE_COLUMNS 100

/* ---- text ---- */

static const char *share(double part, double whole, char text[FORMAT_SIZE])
{
    if (whole > 0 && isfinite(part))
        snprintf(text, FORMAT_SIZE, "%.0f %%", 100 * fmin(part / whole, 1));
    else
        snprintf(text, FORMAT_SIZE, "-");
    return text;
}

/* Return whether the terminal is too narrow for the optional columns besides the layers and a
 * remark. */
static bool is_narrow(void)
{
    return terminal_columns() < WIDE_COLUMNS;
}

static void add_worker(struct text_table *table, const struct worker_info *info)
{
    char units[FORMAT_UNITS_SIZE] = "-", compute[FORMAT_SIZE], wait[FORMAT_SIZE], step[FORMAT_SIZE];
    double busy = info->compute_seconds + info->wait_seconds;

    if (info->unit_count)
        format_units(info->first_unit, info->first_unit + info->unit_count, info->model_units,
                     units);
    text_table_cell(table, "%s/%u", info->node, info->slot);
    text_table_cell(table, "%s", info->job);
    text_table_cell(table, "%s", info->held ? "held" : info->phase);
    if (info->stage < 0)
        text_table_cell(table, "-");
    else
        text_table_cell(table, "%d.%d", info->stage, info->replica);
    text_table_cell(table, "%s", units);
    text_table_cell(table, "%" PRIu64, info->step);
    text_table_cell(table, "%s",
                    info->step_seconds > 0 ? format_duration(info->step_seconds, step) : "-");
    text_table_cell(table, "%s", share(info->compute_seconds, busy, compute));
    if (!is_narrow()) {
        text_table_cell(table, "%s", share(info->wait_seconds, busy, wait));
        text_table_cell(table, "%d", info->pid);
    }
    const char *remark = info->held
                             ? is_narrow() ? "◀ cut off" : "◀ cut off from etcd: commits nothing"
                         : info->slowest ? is_narrow() ? "◀ slowest" : "◀ slowest of its stage"
                                         : "";
    text_table_cell(table, "%s%s%s", *remark ? terminal_color(TERMINAL_YELLOW) : "", remark,
                    *remark ? terminal_color(TERMINAL_PLAIN) : "");
}

static int append_nodes(const struct cluster *cluster, struct bytes *into)
{
    unsigned slots = 0, draining = 0;

    for (size_t i = 0; i < cluster->node_count; i++) {
        slots += cluster->nodes[i].record.slot_count;
        draining += cluster->nodes[i].record.draining;
    }
    int status =
        bytes_append_format(into, "%zu node%s with %u slot%s", cluster->node_count,
                            cluster->node_count == 1 ? "" : "s", slots, slots == 1 ? "" : "s");
    if (!status && draining)
        status = bytes_append_format(into, ", %u draining", draining);
    return status ? status
                  : bytes_append_format(into, ", leader %s\n",
                                        cluster->leader[0] ? cluster->leader : "(none)");
}

static int append_jobs(const struct cluster *cluster, struct bytes *into)
{
    int status = 0;

    for (size_t i = 0; i < cluster->job_count && !status; i++)
        status = watch_brief(&cluster->jobs[i], into);
    return status;
}

static int append_workers(const struct worker_list *list, struct bytes *into)
{
    CLEANUP(text_table_done) struct text_table table = {0};

    if (!list->count)
        return bytes_append_format(into, "no worker runs\n");
    text_table_init(&table,
                    is_narrow()
                        ? "SLOT|JOB|PHASE|#S.R|LAYERS|#STEP|#TIME|#COMPUTE|"
                        : "SLOT|JOB|PHASE|#STAGE.REPLICA|LAYERS|#STEP|#TIME|#COMPUTE|#WAIT|#PID|");
    for (size_t i = 0; i < list->count; i++)
        add_worker(&table, &list->workers[i]);
    return text_table_append(&table, into);
}

static int compose(const struct cluster *cluster, const struct worker_list *list,
                   struct bytes *into)
{
    int status = append_nodes(cluster, into);

    if (!status)
        status = append_jobs(cluster, into);
    if (!status)
        status = append_workers(list, into);
    if (!status && list->silent[0])
        status = bytes_append_format(into, "no answer from %s: away or busy\n", list->silent);
    return status ? status : bytes_append(into, "", 1);
}

/* ---- JSON ---- */

static json_t *worker_json(const struct worker_info *info)
{
    return json_pack(
        "{s:s, s:i, s:s, s:i, s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:b, s:b}",
        "node", info->node, "slot", (int)info->slot, "job", info->job, "pid", info->pid, "phase",
        info->phase, "generation", (json_int_t)info->generation, "step", (json_int_t)info->step,
        "stage", info->stage, "replica", info->replica, "first_unit", (int)info->first_unit,
        "unit_count", (int)info->unit_count, "lanes", (int)info->lanes, "lanes_computed",
        info->lanes_computed, "compute_seconds", info->compute_seconds, "wait_seconds",
        info->wait_seconds, "step_seconds", info->step_seconds, "slowest", (int)info->slowest,
        "held", (int)info->held);
}

static int print_json(const struct cluster *cluster, const struct worker_list *list,
                      struct error *error)
{
    json_t *tree = json_pack("{s:s, s:i, s:[]}", "leader", cluster->leader, "nodes",
                             (int)cluster->node_count, "workers");

    for (size_t i = 0; i < list->count && tree; i++)
        if (json_array_append_new(json_object_get(tree, "workers"),
                                  worker_json(&list->workers[i]))) {
            json_decref(tree);
            tree = NULL;
        }
    return output_json(tree, error);
}

/* ---- the loop ---- */

static int look(struct cluster_client *client, bool json, struct terminal_picture *picture,
                struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(worker_list_done) struct worker_list list = {0};
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = cluster_load(client, &cluster, error);

    if (!status)
        status = worker_list_load(client, &cluster, &list, error);
    if (!status && list.refused.code) {
        *error = list.refused;
        status = error->code;
    }
    if (status)
        return status;
    if (json)
        return print_json(&cluster, &list, error);
    if (compose(&cluster, &list, &text))
        return error_set(error, -ENOMEM, "no memory for the picture");
    if (picture)
        terminal_draw(picture, (const char *)text.data);
    else
        fputs((const char *)text.data, stdout);
    return 0;
}

int run_top(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    struct terminal_picture picture = {0};
    bool json = arguments_has(arguments, "json");
    bool live = !json && !arguments_has(arguments, "once") && terminal_is_live();
    int status = cluster_client_open(arguments, &client, error);

    if (!status)
        status = look(&client, json, live ? &picture : NULL, error);
    if (live)
        terminal_take_keys();
    while (!status && live && !ferror(stdout)) {
        for (uint64_t waited_ns = 0; waited_ns < PERIOD_NS; waited_ns += KEY_NS) {
            if (terminal_asked_to_leave())
                return 0;
            cluster_client_pause(&client, KEY_NS);
        }
        status = look(&client, json, &picture, error);
    }
    return status;
}
