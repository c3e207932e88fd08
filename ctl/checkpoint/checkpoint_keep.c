/* firnctl checkpoint pin, unpin and remove. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/checkpoint/checkpoint_left.h"
#include "ctl/checkpoint/record_change.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/cluster_client.h"
#include "ctl/command/commands.h"

/* Set the pin of a checkpoint with copies in its record, from which each node's firnd reads it. */
static void set_pin(struct checkpoint_record *record, const void *pinned)
{
    record->pinned = *(const bool *)pinned;
}

static int change_pin(const struct arguments *arguments, bool pinned, const char *said,
                      struct error *error)
{
    CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
    int status = checkpoint_find(arguments, &place, error);

    if (!status && place.remote)
        status = record_change(arguments, &place, set_pin, &pinned, error);
    else if (!status)
        status = pinned ? checkpoint_pin(place.path, error) : checkpoint_unpin(place.path, error);
    if (!status)
        printf("%s %s\n", place.path, said);
    return status;
}

int run_checkpoint_pin(const struct arguments *arguments, struct error *error)
{
    return change_pin(arguments, true, "is pinned: it stays until it is unpinned", error);
}

int run_checkpoint_unpin(const struct arguments *arguments, struct error *error)
{
    return change_pin(arguments, false, "is not pinned: it goes when newer ones take its place",
                      error);
}

/* ---- remove ---- */

/* Delete the record first, so that no record names a missing checkpoint. */
static int remove_record(const struct arguments *arguments, uint64_t step, struct error *error)
{
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    char key[KV_KEY_MAX];
    bool succeeded;
    int status = cluster_client_open(arguments, &client, error);

    if (status)
        return status;
    const struct kv_operation operation = {
        .type = KV_DELETE,
        .key = keys_checkpoint(key, client.cluster, arguments->operands[0], step)};
    return cluster_client_txn(&client, NULL, 0, &operation, 1, &succeeded, error);
}

/* Return whether a user has deleted the folder, so that only the record is left; false if this
 * machine does not reach the job's folder at all. */
static bool is_gone(const struct checkpoint_place *place, int status)
{
    return status == -ENOENT && checkpoint_is_lost(place->path, -ENOENT);
}

static const char *way_out(int status)
{
    if (status == -EBUSY)
        return "; --force removes it anyway";
    return status == -EPERM ? "; firnctl checkpoint unpin comes first" : "";
}

/* Remove the record: each node's firnd then removes its own files. */
static int remove_copies(const struct arguments *arguments, const struct checkpoint_place *place,
                         struct error *error)
{
    if (place->pinned)
        return error_set(error, -EPERM, "the checkpoint of step %" PRIu64 " is pinned%s",
                         place->step, way_out(-EPERM));
    if (place->newest && !arguments_has(arguments, "force"))
        return error_set(error, -EBUSY,
                         "the checkpoint of step %" PRIu64
                         " is the newest sound one, from which the job would go on%s",
                         place->step, way_out(-EBUSY));
    return remove_record(arguments, place->step, error);
}

static int remove_found(const struct arguments *arguments, const struct checkpoint_place *place,
                        struct error *error)
{
    const char *slash = strrchr(place->path, '/');
    bool recorded = place->manifest_sha256[0] != '\0';
    bool force = arguments_has(arguments, "force") || (recorded && !place->newest);
    uint64_t step = 0;
    struct error refusal = {0};
    int status =
        recorded && place->newest && !force
            ? error_set(&refusal, -EBUSY,
                        "%s is the newest sound checkpoint, from which the job would go on",
                        place->path)
            : checkpoint_removable(place->path, force, &refusal);
    bool gone = recorded && is_gone(place, status);

    if (status && !gone)
        return error_set(error, status, "%s%s", refusal.text, way_out(status));
    if (recorded && slash && folder_classify(slash + 1, &step) == FOLDER_COMPLETE) {
        status = remove_record(arguments, step, error);
        if (status)
            return status;
    }
    return gone ? 0 : checkpoint_remove(place->path, force, error);
}

static int remove_place(const struct arguments *arguments, const struct checkpoint_place *place,
                        struct error *error)
{
    int status = place->remote ? remove_copies(arguments, place, error)
                               : remove_found(arguments, place, error);

    if (!status && place->remote)
        printf("the checkpoint of step %" PRIu64 " is removed; each node removes its part\n",
               place->step);
    else if (!status)
        printf("%s is removed\n", place->path);
    return status;
}

/* Remove all damaged checkpoints but the pinned ones. */
static int remove_damaged(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    unsigned removed = 0;
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job)
        return -ENOENT;
    for (size_t i = 0; !status && i < job->checkpoint_count; i++) {
        CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
        if (!job->checkpoints[i].damaged[0])
            continue;
        status = checkpoint_find_record(&cluster, job, &job->checkpoints[i], &place, error);
        if (!status)
            status = remove_place(arguments, &place, error);
        removed++;
    }
    if (!status && !removed)
        printf("job %s has no checkpoint that is known to be damaged\n", job->name);
    return status;
}

int run_checkpoint_remove(const struct arguments *arguments, struct error *error)
{
    if (arguments_has(arguments, "all"))
        return checkpoint_left_remove(arguments, error);
    CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
    if (arguments_has(arguments, "damaged"))
        return remove_damaged(arguments, error);
    int status = checkpoint_find(arguments, &place, error);

    if (status)
        return status;
    if (place.manifest_sha256[0] && !arguments_has(arguments, "step"))
        return error_set(error, COMMAND_USAGE,
                         "no checkpoint is named: give --step N; firnctl checkpoint list %s shows "
                         "the steps",
                         arguments->operands[0]);
    return remove_place(arguments, &place, error);
}
