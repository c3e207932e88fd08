#include "ctl/checkpoint/checkpoint_left.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/folder_owner.h"
#include "ctl/command/commands.h"
#include "ctl/view/output.h"
#include "ctl/view/text_table.h"

#define PATH_BYTES 4096

/* One folder with checkpoints. */
struct left {
    char path[PATH_BYTES];
    struct checkpoint_owner owner; /* job "": the folder names no owner */
    uint64_t *steps;               /* newest first */
    size_t count;
};

/* ---- listing ---- */

/* Look at the folder @path. Return false if it has no checkpoints. */
static bool look(const char *path, struct left *ret_left)
{
    struct left left = {.count = 0};

    if (snprintf(left.path, sizeof(left.path), "%s", path) >= (int)sizeof(left.path) ||
        checkpoint_list(path, &left.steps, &left.count, NULL))
        return false;
    if (!left.count) {
        free(left.steps);
        return false;
    }
    if (checkpoint_owner_read(path, &left.owner, NULL))
        left.owner = (struct checkpoint_owner){.created = 0};
    *ret_left = left;
    return true;
}

static int add_json(json_t *list, const struct left *left)
{
    json_t *steps = json_array();

    for (size_t i = 0; steps && i < left->count; i++)
        json_array_append_new(steps, json_integer((json_int_t)left->steps[i]));
    return json_array_append_new(list,
                                 json_pack("{s:s, s:s, s:s, s:s, s:o}", "path", left->path,
                                           "cluster", left->owner.cluster, "job", left->owner.job,
                                           "submission", left->owner.submission, "steps", steps));
}

static void add_row(struct text_table *table, const struct left *left)
{
    const struct checkpoint_owner *owner = &left->owner;

    text_table_cell(table, "%s", owner->job[0] ? owner->job : "-");
    text_table_cell(table, "%s", owner->cluster[0] ? owner->cluster : "-");
    text_table_cell(table, "%zu", left->count);
    text_table_cell(table, "%" PRIu64, left->steps[left->count - 1]);
    text_table_cell(table, "%" PRIu64, left->steps[0]);
    text_table_cell(table, "%s", left->path);
}

/* Rows or, with --json, objects. */
struct listing {
    struct text_table table;
    json_t *list; /* NULL: rows */
    size_t count;
};

static void add(struct listing *listing, const char *path)
{
    struct left left;

    if (!look(path, &left))
        return;
    if (!listing->list)
        add_row(&listing->table, &left);
    else if (add_json(listing->list, &left))
        listing->table.failed = true;
    listing->count++;
    free(left.steps);
}

static int add_below(struct listing *listing, const char *folder, struct error *error)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort);

    if (count < 0)
        return error_set(error, -errno, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        if (names[i]->d_name[0] != '.' &&
            snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name) < (int)sizeof(path))
            add(listing, path);
        free(names[i]);
    }
    free(names);
    return 0;
}

int checkpoint_left_list(const struct arguments *arguments, struct error *error)
{
    const char *folder = arguments->operands[0];
    struct listing listing = {.count = 0};

    text_table_init(&listing.table, "JOB|CLUSTER|#CHECKPOINTS|#OLDEST|#NEWEST|PATH");
    if (arguments_has(arguments, "json"))
        listing.list = json_array();
    add(&listing, folder);
    int status = listing.count ? 0 : add_below(&listing, folder, error);
    if (!status && arguments_has(arguments, "json"))
        status = output_json(json_pack("{s:O}", "folders", listing.list), error);
    else if (!status && !listing.count)
        printf("%s has no checkpoints\n", folder);
    else if (!status && text_table_print(&listing.table))
        status = error_set(error, -ENOMEM, "no memory for the table");
    json_decref(listing.list);
    text_table_done(&listing.table);
    return status;
}

/* ---- removing ---- */

static void cut_last(const char *path, char ret_folder[RECORD_PATH_SIZE])
{
    snprintf(ret_folder, RECORD_PATH_SIZE, "%s", path);
    char *slash = strrchr(ret_folder, '/');
    if (slash)
        *slash = '\0';
}

/* Find the folder of @job in which @record was written; "": another submission wrote it, and @job
 * began from that checkpoint. */
static void folder_of(const struct cluster_job *job, const struct checkpoint_record *record,
                      char ret_folder[RECORD_PATH_SIZE])
{
    char name[NAME_SIZE + RECORD_SUBMISSION_SIZE + 1];

    cut_last(record->path, ret_folder);
    snprintf(name, sizeof(name), "%s%s%s", job->name, job->submission.id[0] ? "." : "",
             job->submission.id);
    const char *slash = strrchr(ret_folder, '/');
    if (!slash || strcmp(slash + 1, name))
        ret_folder[0] = '\0';
}

static void say_removed(size_t count, const char *folder)
{
    printf("%zu checkpoint%s removed, and %s\n", count, count == 1 ? " is" : "s are", folder);
}

/* Find the folder into which @job writes its checkpoints; "": it has recorded none there. */
static const struct checkpoint_record *find_folder(const struct cluster_job *job,
                                                   char ret_folder[RECORD_PATH_SIZE])
{
    ret_folder[0] = '\0';
    for (size_t i = 0; i < job->checkpoint_count; i++) {
        folder_of(job, &job->checkpoints[i], ret_folder);
        if (ret_folder[0])
            return &job->checkpoints[i];
    }
    return NULL;
}

void checkpoint_left_tell(const struct cluster_job *job)
{
    char folder[RECORD_PATH_SIZE];
    const struct checkpoint_record *record = find_folder(job, folder);

    if (record)
        printf("checkpoints: %s%s; firnctl checkpoint remove %s --all removes them\n", folder,
               record->shares ? " on each node" : "", folder);
}

int checkpoint_left_purge(const struct cluster_job *job, struct error *error)
{
    char folder[RECORD_PATH_SIZE];
    const struct checkpoint_record *record = find_folder(job, folder);
    size_t count = 0;

    printf("job %s is removed; its metrics stay on the disks\n", job->name);
    if (!record)
        return 0;
    int status = checkpoint_purge(folder, &count, error);
    if (status == -ENOENT)
        return error_set(error, status,
                         "its checkpoints are not removed: %s is not on this machine; on a node "
                         "that has it: firnctl checkpoint remove %s --all",
                         folder, folder);
    if (status)
        return status;
    say_removed(count, folder);
    if (record->shares)
        printf("other nodes have parts of them on their own disks: on each, firnctl checkpoint "
               "remove %s --all\n",
               folder);
    return 0;
}

/* Return the job of the cluster that has recorded a checkpoint there; NULL: none. */
static const char *find_job(const struct cluster *cluster, const char *folder)
{
    AUTO_FREE char *real = realpath(folder, NULL);

    for (size_t i = 0; real && i < cluster->job_count; i++)
        for (size_t k = 0; k < cluster->jobs[i].checkpoint_count; k++) {
            char parent[RECORD_PATH_SIZE];
            cut_last(cluster->jobs[i].checkpoints[k].path, parent);
            AUTO_FREE char *its = realpath(parent, NULL);
            if (its && !strcmp(its, real))
                return cluster->jobs[i].name;
        }
    return NULL;
}

/* Check the owner too: a submission may have no record there yet, and another cluster may share the
 * disk. */
static int check_owner(const struct cluster *cluster, const char *name, const char *folder,
                       const char **ret_job, struct error *error)
{
    struct checkpoint_owner owner;

    if (checkpoint_owner_read(folder, &owner, NULL))
        return 0;
    if (strcmp(owner.cluster, name))
        return error_set(
            error, -EBUSY,
            "%s belongs to job %s of cluster %s, not to cluster %s; give --cluster %s to "
            "remove it",
            folder, owner.job, owner.cluster, name, owner.cluster);
    for (size_t i = 0; i < cluster->job_count; i++)
        if (!strcmp(cluster->jobs[i].name, owner.job) &&
            !strcmp(cluster->jobs[i].submission.id, owner.submission))
            *ret_job = cluster->jobs[i].name;
    return 0;
}

int checkpoint_left_remove(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    const char *folder = arguments->operands[0];
    size_t count = 0;

    if (!strchr(folder, '/') || arguments_has(arguments, "step"))
        return error_set(
            error, COMMAND_USAGE,
            "--all needs the folder of a job's checkpoints, as firnctl checkpoint list "
            "PATH shows it, and excludes --step");
    int status = cluster_open(arguments, &client, &cluster, error);
    if (status) {
        error_prefix(error, "cannot find out whether a job uses %s: ", folder);
        return status;
    }
    const char *job = find_job(&cluster, folder);
    status = job ? 0 : check_owner(&cluster, client.cluster, folder, &job, error);
    if (status)
        return status;
    if (job)
        return error_set(error, -EBUSY,
                         "%s is of job %s; firnctl job remove %s --purge removes both, when the "
                         "job is over",
                         folder, job, job);
    status = checkpoint_purge(folder, &count, error);
    if (!status)
        say_removed(count, folder);
    return status;
}
