/* firnctl plan: print the planner's choice and its alternatives. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "base/size_words.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/layout.h"
#include "ctl/command/commands.h"
#include "ctl/job/job_data.h"
#include "ctl/job/job_file.h"
#include "ctl/job/job_freezing.h"
#include "ctl/job/job_wish.h"
#include "ctl/job/plan_slots.h"
#include "ctl/job/plan_timeline.h"
#include "ctl/view/format.h"
#include "ctl/view/output.h"
#include "ctl/view/terminal.h"
#include "ctl/view/text_table.h"
#include "elastic/plan/early_switch.h"
#include "elastic/planner/planner.h"
#include "elastic/planner/shadow_stages.h"

#define CHOICES_SHOWN        12
#define TIMELINE_COLUMNS_MIN 40u
#define TIMELINE_COLUMNS_MAX 120u

struct dry_run {
    struct job_spec *spec;
    unsigned frozen_layers;
    struct planner_unit *units;
    struct planner_slot *slots;
    unsigned slot_count;
    struct planner_input input;
    struct plan *plan;
    struct planner_choice choices[PLANNER_CHOICES_MAX];
    unsigned choice_count;
    double switch_seconds; /* measured for the cluster's job of that name; 0: unknown */
};

static void dry_run_done(struct dry_run *run)
{
    free(run->spec);
    free(run->units);
    free(run->slots);
    plan_free(run->plan);
}

/* ---- slots ---- */

static int imagine_slots(const struct arguments *arguments, struct dry_run *run,
                         struct error *error)
{
    const char *text = arguments_text(arguments, "slots", NULL);
    unsigned nodes = (unsigned)arguments_number(arguments, "nodes", 1), each;
    uint64_t memory_bytes;

    if (plan_slots_parse(text, &each, &memory_bytes)) {
        error_set(error, COMMAND_USAGE,
                  "--slots: \"%s\" is not a number of slots, optionally with the memory of one: 2, "
                  "8@80GiB",
                  text);
        return COMMAND_USAGE;
    }
    run->slots = calloc((size_t)nodes * each, sizeof(*run->slots));
    if (!run->slots)
        return error_set(error, -ENOMEM, "no memory");
    for (unsigned i = 0; i < nodes * each; i++) {
        struct planner_slot *slot = &run->slots[run->slot_count++];
        plan_slots_node_name(i / each, slot->node);
        slot->slot = i % each;
        slot->memory_bytes = memory_bytes;
        slot->speed = 1;
        slot->gpu = arguments_has(arguments, "gpu");
    }
    return 0;
}

/* Find the duration of the job's last pause for a change of layout, if the job runs. */
static void find_switch(const struct cluster *cluster, struct dry_run *run)
{
    struct error none = {0};
    const struct cluster_job *job = cluster_find_job(cluster, run->spec->name, &none);

    if (job && !cluster_job_over(job))
        run->switch_seconds = cluster_job_switch_seconds(job);
}

static int ask_slots(const struct arguments *arguments, struct dry_run *run, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status) {
        char why[ERROR_TEXT_SIZE - 64];
        snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, error->text);
        return error_set(error, status, "%s\nWithout a cluster: --slots S plans for S slots", why);
    }
    status = plan_slots_of(&cluster, &run->slots, &run->slot_count, error);
    if (status)
        return status;
    if (!run->slot_count)
        return error_set(error, -ENODEV,
                         "no node with a slot in service is registered; --slots plans without");
    find_switch(&cluster, run);
    return 0;
}

/* ---- planning ---- */

static int plan_layout(const struct arguments *arguments, struct dry_run *run, struct error *error)
{
    run->units = calloc(job_model_unit_count(&run->spec->model), sizeof(*run->units));
    run->plan = plan_new();
    if (!run->units || !run->plan)
        return error_set(error, -ENOMEM, "no memory");
    planner_job(run->spec, run->frozen_layers, run->slots, run->slot_count, run->units,
                &run->input);
    run->input.devices_max =
        (unsigned)arguments_number(arguments, "devices", run->spec->elastic.devices_max);
    run->input.stages_wanted = (unsigned)arguments_number(arguments, "stages", 0);
    run->input.replicas_wanted = (unsigned)arguments_number(arguments, "replicas", 0);
    return run->spec->elastic.shadow ? shadow_stages_layout(&run->input, run->plan, run->choices,
                                                            &run->choice_count, error)
                                     : planner_run(&run->input, &run->plan->layout, run->choices,
                                                   &run->choice_count, error);
}

/* ---- output ---- */

static json_t *choice_json(const struct planner_choice *choice)
{
    return json_pack("{s:i, s:i, s:f, s:f, s:I, s:s, s:i, s:b, s:b}", "stages",
                     (int)choice->stage_count, "replicas", (int)choice->replica_count,
                     "step_seconds", choice->step_seconds, "bubble_share", choice->bubble_share,
                     "memory_bytes_max", (json_int_t)choice->memory_bytes_max, "recompute",
                     plan_recompute_word(choice->recompute), "deferred", (int)choice->deferred,
                     "shares_lanes", (int)choice->shares_lanes, "fits", (int)choice->fits);
}

static int tell_json(const struct dry_run *run, struct error *error)
{
    json_t *tree = json_pack(
        "{s:s, s:i, s:b, s:i, s:o, s:[]}", "job", run->spec->name, "slots", (int)run->slot_count,
        "measured", (int)plan_slots_measured(run->slots, run->slot_count), "frozen_layers",
        (int)run->frozen_layers, "layout", plan_describe(run->plan), "candidates");
    struct job_data_extent data;

    if (tree && job_data_look(run->spec, &data) &&
        json_object_set_new(tree, "data",
                            json_pack("{s:I, s:I, s:f}", "tokens", (json_int_t)data.token_count,
                                      "samples", (json_int_t)data.sample_count, "passes",
                                      data.passes))) {
        json_decref(tree);
        tree = NULL;
    }
    if (tree && run->switch_seconds > 0 &&
        json_object_set_new(tree, "switch_seconds", json_real(run->switch_seconds))) {
        json_decref(tree);
        tree = NULL;
    }
    for (unsigned i = 0; i < run->choice_count && tree; i++)
        if (json_array_append_new(json_object_get(tree, "candidates"),
                                  choice_json(&run->choices[i]))) {
            json_decref(tree);
            tree = NULL;
        }
    return output_json(tree, error);
}

/* Name the activations that backward recomputes. */
static const char *again_words(enum plan_recompute recompute)
{
    static const char *const words[] = {[PLAN_RECOMPUTE_NONE] = "",
                                        [PLAN_RECOMPUTE_ATTENTION] =
                                            ", attention is computed twice",
                                        [PLAN_RECOMPUTE_FULL] = ", forward is computed twice"};
    return words[recompute];
}

static const char *sharing_words(const struct planner_choice *choice)
{
    return choice->shares_lanes ? ", replicas share lanes" : "";
}

/* Name the order of a pipeline's operations. */
static const char *schedule_words(const struct planner_choice *choice, char *text)
{
    if (choice->stage_count == 1)
        return "";
    if (choice->deferred == 0)
        return "1F1B";
    if (choice->deferred + 1 == choice->stage_count)
        return "ZB-H1";
    (void)snprintf(text, FORMAT_SIZE, "ZB-H1, %u of %u", choice->deferred, choice->stage_count - 1);
    return text;
}

static void add_choice(struct text_table *table, const struct planner_choice *choice,
                       const struct planner_choice *best)
{
    char step[FORMAT_SIZE], memory[FORMAT_SIZE], schedule[FORMAT_SIZE];
    bool chosen = choice == best;

    text_table_cell(table, "%s", chosen ? "▶" : "");
    text_table_cell(table, "%u", choice->stage_count);
    text_table_cell(table, "%u", choice->replica_count);
    text_table_cell(table, "%u", choice->stage_count * choice->replica_count);
    text_table_cell(table, "%s", format_duration(choice->step_seconds, step));
    text_table_cell(table, "%.0f %%", fabs(choice->bubble_share) * 100);
    text_table_cell(table, "%s", size_words(choice->memory_bytes_max, memory));
    text_table_cell(table, "%s", schedule_words(choice, schedule));
    if (!choice->fits)
        text_table_cell(table, "does not fit the slots' memory");
    else if (chosen)
        text_table_cell(table, "chosen: the shortest step%s%s", sharing_words(choice),
                        again_words(choice->recompute));
    else
        text_table_cell(table, "%+.0f %%%s%s",
                        100 * (choice->step_seconds / best->step_seconds - 1),
                        sharing_words(choice), again_words(choice->recompute));
}

static int tell_choices(const struct dry_run *run)
{
    CLEANUP(text_table_done) struct text_table table = {0};

    text_table_init(&table, "|#STAGES|#REPLICAS|#SLOTS|#STEP|#BUBBLE|#MEMORY|SCHEDULE|");
    for (unsigned i = 0; i < MIN(run->choice_count, (unsigned)CHOICES_SHOWN); i++)
        add_choice(&table, &run->choices[i], &run->choices[0]);
    return text_table_print(&table);
}

static void tell_data(const struct job_spec *spec)
{
    char words[JOB_DATA_WORDS_SIZE];
    struct job_data_extent data;

    fflush(stdout);
    job_data_warn_missing(&spec->data);
    if (job_data_hint(spec, words))
        printf("\nWarning: %s\n", words);
    else if (job_data_look(spec, &data))
        printf("\nThe data here has %s.\n",
               job_data_words(&spec->model, &spec->train, &data, words));
}

static void warn_of_freezing(const struct job_spec *spec)
{
    char words[JOB_FREEZING_WORDS_SIZE];

    if (job_freezing_hint(spec, words))
        printf("\nWarning: %s\n", words);
    if (job_freezing_unused(spec, words))
        printf("\nWarning: %s\n", words);
}

static void warn_of_memory(const struct dry_run *run)
{
    for (unsigned i = 0; i < run->slot_count; i++)
        if (run->slots[i].memory_bytes > 0)
            return;
    unsigned of_first = 0; /* slots of the first node; all nodes have as many */
    for (unsigned i = 0; i < run->slot_count; i++)
        of_first += strcmp(run->slots[i].node, run->slots[0].node) == 0;
    printf("\nThe memory of the slots is not known, so the plan did not check it: set it, as in "
           "--slots %u@8GiB\n",
           of_first);
}

static void tell_switch(const struct dry_run *run)
{
    char pause[FORMAT_SIZE], gain[FORMAT_SIZE];

    if (run->switch_seconds <= 0)
        return;
    printf(
        "\nThe last planned switch of layouts paused job %s for %s. A switch waits for the end of a "
        "step, unless beginning within it saves more than %s.\n",
        run->spec->name, format_duration(run->switch_seconds, pause),
        format_duration(early_switch_gain_seconds(run->switch_seconds), gain));
}

static int tell_timeline(const struct dry_run *run)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    unsigned columns = MIN(MAX(terminal_columns(), TIMELINE_COLUMNS_MIN), TIMELINE_COLUMNS_MAX);

    if (plan_timeline_append(&run->input, &run->plan->layout, columns, &text))
        return -ENOMEM;
    printf("%.*s", (int)text.size_bytes, text.data ? (const char *)text.data : "");
    return 0;
}

static int tell_text(const struct dry_run *run, struct error *error)
{
    CLEANUP(bytes_done) struct bytes layout = {0};
    char words[LAYOUT_WORDS_SIZE], times[PLAN_SLOTS_WORDS_SIZE];

    printf("job %s on %u slot%s, %u lane%s x %u micro-batch%s", run->spec->name, run->slot_count,
           plural(run->slot_count), run->spec->train.lanes, plural(run->spec->train.lanes),
           run->spec->train.micro_batches_per_lane,
           run->spec->train.micro_batches_per_lane == 1 ? "" : "es");
    if (run->frozen_layers)
        printf(", %u of %u layers frozen", run->frozen_layers, run->spec->model.layers);
    printf("\n\n");
    if (tell_choices(run) || layout_append(run->plan, run->frozen_layers, 2, &layout))
        return error_set(error, -ENOMEM, "no memory for the table");
    if (run->choice_count > CHOICES_SHOWN)
        printf("and %u more that are slower\n", run->choice_count - CHOICES_SHOWN);
    printf("\n%s:\n%.*s", layout_words(run->plan, words), (int)layout.size_bytes,
           layout.data ? (const char *)layout.data : "");
    if (tell_timeline(run))
        return error_set(error, -ENOMEM, "no memory for the picture of a step");
    unsigned bare = run->spec->elastic.shadow ? shadow_stages_bare_stages(&run->plan->layout) : 0;
    if (bare)
        printf("%u %s no shadow: no worker of another node has room for the copy\n", bare,
               bare == 1 ? "stage has" : "stages have");
    tell_switch(run);
    tell_data(run->spec);
    warn_of_freezing(run->spec);
    warn_of_memory(run);
    printf("\n%s.\n",
           plan_slots_time_words(run->slots, run->slot_count, run->spec->train.precision, times));
    return 0;
}

int run_plan(const struct arguments *arguments, struct error *error)
{
    CLEANUP(dry_run_done) struct dry_run run = {0};
    int status;

    run.spec = calloc(1, sizeof(*run.spec));
    status = run.spec ? job_file_load(arguments->operands[0], arguments, run.spec, error) : -ENOMEM;
    if (!status)
        run.frozen_layers =
            (unsigned)arguments_number(arguments, "frozen", run.spec->elastic.freeze.from_start);
    if (!status && run.frozen_layers >= run.spec->model.layers + 1)
        return error_set(error, COMMAND_USAGE, "--frozen: the model has only %u layers",
                         run.spec->model.layers);
    struct desired_record asked = {.wish = RECORD_RUNNING};
    if (!status)
        status = job_wish_scale(arguments, &run.spec->model, &run.spec->train, &asked, error);
    if (!status)
        status = arguments_has(arguments, "slots") ? imagine_slots(arguments, &run, error)
                                                   : ask_slots(arguments, &run, error);
    if (!status)
        status = plan_layout(arguments, &run, error);
    if (status)
        return status;
    return arguments_has(arguments, "json") ? tell_json(&run, error) : tell_text(&run, error);
}
