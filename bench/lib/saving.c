#include "bench/lib/saving.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/lib/measure.h"

#define POLL_NS   (20 * NS_PER_MS)
#define GIVE_UP_S 120.0

void saving_open(struct saving *saving, struct rig *rig)
{
    struct error error = {0};

    *saving = (struct saving){.rig = rig};
    snprintf(saving->folder, sizeof(saving->folder), "%s/checkpoints", rig->scratch.path);
    const struct snapshot_options options = {.folder = saving->folder, .node = "bench"};
    if (snapshot_new(rig->state, &options, &saving->snapshot, &error))
        measure_die("%s", error.text);
}

void saving_close(struct saving *saving)
{
    snapshot_free(saving->snapshot);
}

void saving_begin(struct saving *saving)
{
    struct error error = {0};

    if (snapshot_begin(saving->snapshot, saving->rig->plan, 0, NULL, &error))
        measure_die("%s", error.text);
}

bool saving_committed(struct saving *saving, uint64_t deadline_ns)
{
    CLEANUP(control_checkpoint_done) struct control_checkpoint result = {0};
    struct error error = {0};

    if (snapshot_poll(saving->snapshot, deadline_ns, &error) < 0)
        measure_die("%s", error.text);
    snapshot_commit(saving->snapshot, snapshot_durable_step(saving->snapshot));
    int status = snapshot_take_result(saving->snapshot, &result, &error);
    if (status < 0)
        measure_die("%s", error.text);
    if (status == 0)
        return false;
    saving->size_bytes = result.size_bytes;
    saving->write_seconds = result.write_seconds;
    snprintf(saving->path, sizeof(saving->path), "%s", result.path);
    result.kept_from = result.step;
    snapshot_retain(saving->snapshot, &result);
    return true;
}

double saving_save(struct saving *saving)
{
    double began = measure_now();

    saving_begin(saving);
    snapshot_release(saving->snapshot);
    while (!saving_committed(saving, clock_monotonic_ns() + POLL_NS))
        if (measure_now() - began > GIVE_UP_S)
            measure_die("a checkpoint took more than %.0f s", GIVE_UP_S);
    return measure_now() - began;
}
