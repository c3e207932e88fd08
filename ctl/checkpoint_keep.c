/* firnctl checkpoint pin, unpin and remove. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/folder.h"
#include "checkpoint/keep.h"
#include "checkpoint/reader.h"
#include "ctl/checkpoint_find.h"
#include "ctl/commands.h"
#include "ctl/store.h"

static int change_pin(const struct arguments *arguments,
                      int (*change)(const char *path, struct error *error), const char *said,
                      struct error *error)
{
    struct checkpoint_place place;
    int status = checkpoint_find(arguments, &place, error);

    if (!status)
        status = change(place.path, error);
    if (!status)
        printf("%s %s\n", place.path, said);
    return status;
}

int run_checkpoint_pin(const struct arguments *arguments, struct error *error)
{
    return change_pin(arguments, checkpoint_pin, "is pinned: it stays until it is unpinned", error);
}

int run_checkpoint_unpin(const struct arguments *arguments, struct error *error)
{
    return change_pin(arguments, checkpoint_unpin,
                      "is not pinned: it goes when newer ones take its place", error);
}

/* ---- remove ---- */

/* The record goes first, so that none ever promises a checkpoint that is not there. */
static int remove_record(const struct arguments *arguments, uint64_t step, struct error *error)
{
    CLEANUP(store_close) struct store store = {0};
    char key[KV_KEY_MAX];
    bool succeeded;
    int status = store_open(arguments, &store, error);

    if (status)
        return status;
    const struct kv_operation operation = {
        .type = KV_DELETE,
        .key = keys_checkpoint(key, store.cluster, arguments->operands[0], step)};
    return store_txn(&store, NULL, 0, &operation, 1, &succeeded, error);
}

/* Somebody has removed the folder by hand: only the record is left. Not so where this machine does
 * not reach the job's folder at all. */
static bool is_gone(const struct checkpoint_place *place, int status)
{
    return status == -ENOENT && checkpoint_is_lost(place->path, -ENOENT);
}

static const char *way_out(int status)
{
    if (status == -EBUSY)
        return "; --force removes it all the same";
    return status == -EPERM ? "; firnctl checkpoint unpin comes first" : "";
}

static int remove_found(const struct arguments *arguments, const struct checkpoint_place *place,
                        struct error *error)
{
    const char *slash = strrchr(place->path, '/');
    bool force = arguments_has(arguments, "force"), recorded = place->manifest_sha256[0] != '\0';
    uint64_t step = 0;
    struct error refusal = {0};
    int status = checkpoint_removable(place->path, force, &refusal);
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

int run_checkpoint_remove(const struct arguments *arguments, struct error *error)
{
    struct checkpoint_place place;
    int status = checkpoint_find(arguments, &place, error);

    if (status)
        return status;
    if (place.manifest_sha256[0] && !arguments_has(arguments, "step"))
        return error_set(error, COMMAND_USAGE,
                         "which one? --step N says it; firnctl checkpoint "
                         "list %s shows those there are",
                         arguments->operands[0]);
    status = remove_found(arguments, &place, error);
    if (!status)
        printf("%s is removed\n", place.path);
    return status;
}
