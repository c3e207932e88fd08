/*
 * firnctl checkpoint verify: compare every byte of a checkpoint with its checksums; with copies,
 * every byte of every copy, as its node's firnd reads it from the disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/size_words.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/verify_copies.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/checkpoint/copies_words.h"
#include "ctl/checkpoint/record_change.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"
#include "ctl/view/meter.h"
#include "ctl/view/output.h"

static int report_good(const struct arguments *arguments, const struct checkpoint_place *place,
                       const struct meter *meter, struct error *error)
{
    double seconds = (double)(clock_monotonic_ns() - meter->begun_ns) / 1e9;
    char size[FORMAT_SIZE], took[FORMAT_SIZE];

    if (arguments_has(arguments, "json"))
        return output_json(json_pack("{s:s, s:b, s:I, s:f}", "path", place->path, "good", 1,
                                     "size_bytes", (json_int_t)meter->total, "seconds", seconds),
                           error);
    printf("%s is good: %s read and compared in %s\n", place->path, size_words(meter->total, size),
           format_duration(seconds, took));
    return 0;
}

/* Mark the checkpoint verified: retention keeps the newest verified one. A failed write is not an
 * error: a user with only read access can verify too. */
static void mark_verified(const struct checkpoint_place *place)
{
    struct error error = {0};

    if (checkpoint_mark_verified(place->path, &error))
        fprintf(stderr, "firnctl: warning: it cannot be marked as verified: %s\n", error.text);
}

/* ---- copies ---- */

static json_t *copies_json(const struct copies_check *check)
{
    json_t *nodes = json_array();

    for (unsigned i = 0; i < check->node_count && nodes; i++) {
        const struct copies_node *node = &check->nodes[i];
        if (json_array_append_new(nodes,
                                  json_pack("{s:s, s:i, s:i, s:i, s:s}", "node", node->name, "good",
                                            (int)node->good, "bad", (int)node->bad, "not_seen",
                                            (int)node->unseen, "problem", node->problem))) {
            json_decref(nodes);
            return NULL;
        }
    }
    return nodes;
}

static void tell_copies(const struct copies_check *check)
{
    for (unsigned i = 0; i < check->node_count; i++) {
        const struct copies_node *node = &check->nodes[i];
        printf("node %s: %u file%s good", node->name, node->good, node->good == 1 ? "" : "s");
        if (node->bad)
            printf(", %u DAMAGED", node->bad);
        if (node->unseen)
            printf(", %u not seen", node->unseen);
        printf("%s%s\n", node->problem[0] ? ": " : "", node->problem);
    }
}

static int verify_copies(const struct arguments *arguments, const struct checkpoint_place *place,
                         struct checkpoint_reader *reader, struct meter *meter, struct error *error)
{
    struct copies_check check;
    int status =
        checkpoint_verify_copies(reader, place->remote, meter_progress, meter, &check, error);

    if (status)
        return status;
    if (arguments_has(arguments, "json"))
        status = output_json(json_pack("{s:I, s:b, s:I, s:I, s:o}", "step", (json_int_t)place->step,
                                       "good", check.bad == 0 && check.unseen == 0, "fewest",
                                       (json_int_t)check.fewest, "lost", (json_int_t)check.lost,
                                       "nodes", copies_json(&check)),
                             error);
    else
        tell_copies(&check);
    if (check.lost) {
        struct error lost = {0};
        int code = copies_words(&check, &lost);
        record_note_damage(arguments, place, code ? -EBADMSG : 0, lost.text);
    } else if (!check.bad && !check.unseen) {
        record_note_sound(arguments, place);
    }
    unsigned fewest = check.fewest;
    if (!status)
        status = copies_words(&check, error);
    copies_check_done(&check);
    if (status)
        return status;
    if (!arguments_has(arguments, "json"))
        printf("the checkpoint of step %" PRIu64 " is good: at least %u %s of every file\n",
               place->step, fewest, fewest == 1 ? "copy" : "copies");
    return 0;
}

int run_checkpoint_verify(const struct arguments *arguments, struct error *error)
{
    struct meter meter = meter_begin();
    struct checkpoint_reader *reader = NULL;
    CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
    int status = checkpoint_find(arguments, &place, error);

    if (status)
        return status;
    status = checkpoint_place_open(&place, &reader, error);
    if (status) {
        record_note_damage(arguments, &place, status, error->text);
        return status;
    }
    if (place.remote) {
        status = verify_copies(arguments, &place, reader, &meter, error);
        checkpoint_close(reader);
        return status;
    }
    status = checkpoint_verify(reader, meter_progress, &meter, error);
    checkpoint_close(reader);
    if (status < 0) {
        record_note_damage(arguments, &place, status, error->text);
        return status;
    }
    record_note_sound(arguments, &place);
    mark_verified(&place);
    if (status == CHECKPOINT_METRICS_BAD) {
        fprintf(stderr,
                "firnctl: warning: %s; a job can still resume from the checkpoint, without these "
                "lines\n",
                error->text);
        error_clear(error);
    }
    return report_good(arguments, &place, &meter, error);
}
