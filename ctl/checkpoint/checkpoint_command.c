/* firnctl checkpoint list and show. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/size_words.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/checkpoint/checkpoint_left.h"
#include "ctl/checkpoint/checkpoint_where.h"
#include "ctl/cluster/cluster.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"
#include "ctl/view/output.h"
#include "ctl/view/text_table.h"
#include "elastic/copies/copies.h"

/* ---- list ---- */

static bool is_registered(void *context, const char *node)
{
    const struct cluster *cluster = context;

    for (size_t i = 0; i < cluster->node_count; i++)
        if (!strcmp(cluster->nodes[i].name, node))
            return true;
    return false;
}

/* Count the reachable copies of every file. */
static unsigned copies_there(struct cluster *cluster, const struct checkpoint_record *record)
{
    return record->shares ? copies_left(record->shares, is_registered, cluster) : 1;
}

static json_t *record_json(struct cluster *cluster, const struct checkpoint_record *record)
{
    json_t *tree = checkpoint_record_encode(record);

    if (tree &&
        json_object_set_new(tree, "copies_left", json_integer(copies_there(cluster, record)))) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

static int list_json(struct cluster *cluster, const struct cluster_job *job, struct error *error)
{
    json_t *array = json_array();

    for (size_t i = 0; i < job->checkpoint_count && array; i++)
        if (json_array_append_new(array, record_json(cluster, &job->checkpoints[i]))) {
            json_decref(array);
            array = NULL;
        }
    json_t *objects = json_array();
    for (size_t i = 0; i < job->object_count && objects; i++)
        if (json_array_append_new(objects, object_record_encode(&job->objects[i]))) {
            json_decref(objects);
            objects = NULL;
        }
    return output_json(array && objects ? json_pack("{s:s, s:o, s:o}", "job", job->name,
                                                    "checkpoints", array, "objects", objects)
                                        : NULL,
                       error);
}

/* List older checkpoints that remain only in the object store. */
static void list_elsewhere(struct text_table *table, const struct cluster_job *job)
{
    const struct object_record *object;
    char size[FORMAT_SIZE];

    for (size_t i = 0; (object = checkpoint_only_stored(job, i)); i++) {
        text_table_cell(table, "%" PRIu64, object->step);
        text_table_cell(table, "-");
        text_table_cell(table, "%s", size_words(object->size_bytes, size));
        text_table_cell(table, "-");
        text_table_cell(table, "-");
        text_table_cell(table, "-");
        text_table_cell(table, "-");
        text_table_cell(table, "-");
        text_table_cell(table, "%s", object->node);
        text_table_cell(table, "object");
        text_table_cell(table, "%s", object->place);
    }
}

/* Describe the checkpoint's marks, as far as this machine reaches the folder. */
static const char *kept_as(const char *path)
{
    if (checkpoint_pinned(path))
        return checkpoint_verified(path) ? "pinned, verified" : "pinned";
    return checkpoint_verified(path) ? "verified" : "-";
}

/* Add "2", or "1 of 2" if nodes are away. */
static void copies_cell(struct text_table *table, struct cluster *cluster,
                        const struct checkpoint_record *record)
{
    unsigned made = MAX(copies_fewest(record->shares), 1u), left = copies_there(cluster, record);

    if (left < made)
        text_table_cell(table, "%u of %u", left, made);
    else
        text_table_cell(table, "%u", left);
}

static int list_table(struct cluster *cluster, const struct cluster_job *job, struct error *error)
{
    CLEANUP(text_table_done) struct text_table table = {0};
    uint64_t now_ns = clock_unix_ns();

    if (!job->checkpoint_count && !checkpoint_only_stored(job, 0)) {
        printf("job %s has no checkpoint yet\n", job->name);
        return 0;
    }
    text_table_init(
        &table, "#STEP|#GENERATION|#SIZE|#STALL|#WRITTEN IN|#AGE|#COPIES|KEPT AS|BY|WHERE|PATH");
    for (size_t i = 0; i < job->checkpoint_count; i++) {
        const struct checkpoint_record *record = &job->checkpoints[i];
        char size[FORMAT_SIZE], stall[FORMAT_SIZE], took[FORMAT_SIZE], age[FORMAT_SIZE];
        char where[CHECKPOINT_WHERE_SIZE];
        text_table_cell(&table, "%" PRIu64, record->step);
        text_table_cell(&table, "%" PRIu64, record->generation);
        text_table_cell(&table, "%s", size_words(record->size_bytes, size));
        text_table_cell(&table, "%s", format_duration(record->stall_seconds, stall));
        text_table_cell(&table, "%s", format_duration(record->write_seconds, took));
        text_table_cell(
            &table, "%s",
            format_duration(now_ns > record->unix_ns ? (double)(now_ns - record->unix_ns) / 1e9 : 0,
                            age));
        copies_cell(&table, cluster, record);
        text_table_cell(&table, "%s", record->pinned ? "pinned" : kept_as(record->path));
        text_table_cell(&table, "%s", record->node);
        text_table_cell(&table, "%s", checkpoint_where(job, record, where));
        text_table_cell(&table, "%s", record->path);
    }
    list_elsewhere(&table, job);
    return text_table_print(&table) ? error_set(error, -ENOMEM, "no memory for the table") : 0;
}

int run_checkpoint_list(const struct arguments *arguments, struct error *error)
{
    if (strchr(arguments->operands[0], '/'))
        return checkpoint_left_list(arguments, error);
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job)
        return -ENOENT;
    return arguments_has(arguments, "json") ? list_json(&cluster, job, error)
                                            : list_table(&cluster, job, error);
}

/* ---- show ---- */

static uint64_t total_bytes(const struct manifest *manifest)
{
    uint64_t total = 0;

    for (size_t i = 0; i < manifest->file_count; i++)
        total += manifest->files[i].size_bytes;
    return total;
}

/* Return the nodes with a copy of the file; NULL: every folder of the checkpoint has it. */
static json_t *nodes_json(const struct manifest_file *file)
{
    json_t *nodes = file->node_count ? json_array() : NULL;

    for (unsigned i = 0; i < file->node_count; i++)
        if (json_array_append_new(nodes, json_string(file->nodes[i]))) {
            json_decref(nodes);
            return NULL;
        }
    return nodes;
}

static json_t *files_json(const struct manifest *manifest)
{
    json_t *files = json_array();

    for (size_t i = 0; i < manifest->file_count && files; i++) {
        const struct manifest_file *file = &manifest->files[i];
        if (json_array_append_new(files, json_pack("{s:s, s:I, s:o*}", "name", file->name,
                                                   "size_bytes", (json_int_t)file->size_bytes,
                                                   "nodes", nodes_json(file)))) {
            json_decref(files);
            return NULL;
        }
    }
    return files;
}

static int show_json(const char *path, const struct manifest *manifest, struct error *error)
{
    char digest[HASH128_TEXT_SIZE];

    hash128_text(manifest->state_digest, digest);
    return output_json(json_pack("{s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:o, s:O?, s:O?}", "path",
                                 path, "job", manifest->job, "step", (json_int_t)manifest->step,
                                 "generation", (json_int_t)manifest->generation, "state_digest",
                                 digest, "tensors", (json_int_t)manifest->tensor_count,
                                 "size_bytes", (json_int_t)total_bytes(manifest), "files",
                                 files_json(manifest), "state", manifest->state, "spec",
                                 manifest->spec),
                       error);
}

static void show_text(const char *path, const struct manifest *manifest)
{
    char digest[HASH128_TEXT_SIZE], size[FORMAT_SIZE];
    size_t roles[3] = {0};

    hash128_text(manifest->state_digest, digest);
    for (size_t i = 0; i < manifest->tensor_count; i++)
        roles[manifest->tensors[i].role]++;
    printf("checkpoint    %s\njob           %s\nstep          %" PRIu64 "\ngeneration    %" PRIu64
           "\nstate_digest  %s\n",
           path, manifest->job, manifest->step, manifest->generation, digest);
    printf("tensors       %zu parameters, %zu first and %zu second moments\n",
           roles[MANIFEST_PARAMETER], roles[MANIFEST_FIRST_MOMENT], roles[MANIFEST_SECOND_MOMENT]);
    printf("size          %s in %zu files\n", size_words(total_bytes(manifest), size),
           manifest->file_count);
    for (size_t i = 0; i < manifest->file_count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        printf("              %s, %s", file->name, size_words(file->size_bytes, size));
        for (unsigned k = 0; k < file->node_count; k++)
            printf("%s%s", k ? ", " : " on ", file->nodes[k]);
        printf("\n");
    }
}

int run_checkpoint_show(const struct arguments *arguments, struct error *error)
{
    CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
    struct checkpoint_reader *reader = NULL;
    struct manifest manifest = {0};
    int status = checkpoint_find(arguments, &place, error);

    if (!status && place.remote)
        status = checkpoint_place_open(&place, &reader, error);
    else if (!status)
        status = manifest_load(place.path, place.manifest_sha256[0] ? place.manifest_sha256 : NULL,
                               &manifest, error);
    if (status)
        return status;
    const struct manifest *shown = reader ? checkpoint_manifest(reader) : &manifest;
    if (arguments_has(arguments, "json"))
        status = show_json(place.path, shown, error);
    else
        show_text(place.path, shown);
    manifest_done(&manifest);
    checkpoint_close(reader);
    return status;
}
