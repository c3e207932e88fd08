/*
 * What a checkpoint costs the training that it saves: GPT-2 124M with AdamW (1.5 GB), through the
 * worker's own step loop calls (worker/snapshot.h, worker/restore.h).
 *
 *   bandwidth  nothing else runs: from the beginning of a save to its commit on disk, beside fio
 *              writing files of the same sizes with O_DIRECT, the same blocks and depth, flush
 *              included, in the same rounds
 *   restore    the whole state back, every byte verified, beside fio reading its files
 *   stall      training goes on: how long the step loop is held up by each checkpoint, and how much
 *              longer the steps take while it is written than the steps just before
 *
 *   drift      a small model (50 MB), whose steps are shorter than a save: the stall of many
 *              checkpoints, and how much memory the process has gained after them
 *   torch      the same state saved by torch.distributed.checkpoint.async_save, in turns, where
 *              --torch names bench/checkpoint_torch.py and PyTorch is there (FIRN_PYTHON)
 *
 * About 4 GB of disk below --folder (TMPDIR, else /tmp), removed at the end.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "bench/fio.h"
#include "bench/measure.h"
#include "bench/peer.h"
#include "bench/rig.h"
#include "checkpoint/io.h"
#include "checkpoint/manifest.h"
#include "worker/restore.h"

/* What worker/snapshot.c and checkpoint/writer.c use. */
#define DEPTH       8
#define BLOCK_BYTES ((size_t)4 << 20)
#define FILES_MAX   4
#define POLL_NS     (20 * NS_PER_MS)
#define GIVE_UP_S   120.0

struct bench {
    struct rig *rig;
    struct snapshot *snapshot;
    char folder[300], path[JOB_PATH_SIZE]; /* of checkpoints; of the last one */
    size_t sizes[FILES_MAX];
    unsigned file_count;
    uint64_t size_bytes;
    struct samples save, restore, fio_write, fio_read;
    struct samples stall, step, step_saving, extra;
    struct samples torch_save, torch_stall;
};

/* ---- saving ---- */

static void begin(struct bench *bench)
{
    struct error error = {0};

    if (snapshot_begin(bench->snapshot, bench->rig->plan, 0, &error))
        measure_die("%s", error.text);
}

/* Whether the checkpoint that was begun is on disk; @deadline_ns as snapshot_poll(). */
static bool committed(struct bench *bench, uint64_t deadline_ns)
{
    struct control_checkpoint result = {0};
    struct error error = {0};

    if (snapshot_poll(bench->snapshot, deadline_ns, &error) < 0)
        measure_die("%s", error.text);
    snapshot_commit(bench->snapshot, snapshot_durable_step(bench->snapshot));
    int status = snapshot_take_result(bench->snapshot, &result, &error);
    if (status < 0)
        measure_die("%s", error.text);
    if (status == 0)
        return false;
    bench->size_bytes = result.size_bytes;
    snprintf(bench->path, sizeof(bench->path), "%s", result.path);
    snapshot_retain(bench->snapshot, result.step, result.step);
    return true;
}

static void await_commit(struct bench *bench)
{
    double began = measure_now();

    while (!committed(bench, clock_monotonic_ns() + POLL_NS))
        if (measure_now() - began > GIVE_UP_S)
            measure_die("a checkpoint took more than %.0f s", GIVE_UP_S);
}

static double save(struct bench *bench)
{
    double began = measure_now();

    begin(bench);
    snapshot_release(bench->snapshot);
    await_commit(bench);
    return measure_now() - began;
}

/* ---- the files of the last checkpoint ---- */

static void list_files(struct bench *bench)
{
    struct manifest manifest = {0};
    struct error error = {0};

    if (manifest_load(bench->path, NULL, &manifest, &error))
        measure_die("%s", error.text);
    bench->file_count = 0;
    for (size_t i = 0; i < manifest.file_count; i++)
        if (manifest.files[i].size_bytes >= BLOCK_BYTES && bench->file_count < FILES_MAX)
            bench->sizes[bench->file_count++] = manifest.files[i].size_bytes;
    manifest_done(&manifest);
}

/* Out of the page cache, so that a restore asks the disk. */
static void forget_files(const struct bench *bench)
{
    struct manifest manifest = {0};
    struct error error = {0};

    if (manifest_load(bench->path, NULL, &manifest, &error))
        measure_die("%s", error.text);
    for (size_t i = 0; i < manifest.file_count; i++) {
        char path[JOB_PATH_SIZE + MANIFEST_FILE_SIZE + 2];
        snprintf(path, sizeof(path), "%s/%s", bench->path, manifest.files[i].name);
        AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if (descriptor >= 0)
            posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    }
    manifest_done(&manifest);
}

/* ---- bandwidth ---- */

static double restore(struct bench *bench)
{
    struct rig *rig = bench->rig;
    struct error error = {0};

    forget_files(bench);
    double began = measure_now();
    if (restore_units(rig->state, bench->path, 0, rig->state->unit_count, &error))
        measure_die("%s", error.text);
    return measure_now() - began;
}

/* Of all parameters and moments, the mirror's too: what a restore must give back. */
static struct hash128 state_hash(const struct state *state)
{
    struct hash_stream *hash = hash_stream_new();

    if (!hash)
        measure_die("no memory for a hash");
    for (unsigned i = 0; i < state->unit_count; i++) {
        const struct state_unit *unit = &state->units[i];
        size_t size_bytes = unit->layout.count * sizeof(float);
        hash_stream_add(hash, unit->parameters, size_bytes);
        hash_stream_add(hash, unit->first_moment, size_bytes);
        hash_stream_add(hash, unit->second_moment, size_bytes);
    }
    struct hash128 result = hash_stream_result(hash);
    hash_stream_free(hash);
    return result;
}

static void add_positive(struct samples *samples, double value)
{
    if (value > 0)
        samples_add(samples, value);
}

static void torch_save(struct bench *bench, struct peer *torch)
{
    double seconds[2];

    if (torch && peer_numbers(torch, seconds, 2) == 2) {
        samples_add(&bench->torch_save, seconds[0]);
        samples_add(&bench->torch_stall, seconds[1]);
    }
}

static void measure_bandwidth(struct bench *bench, unsigned rounds, struct peer *torch)
{
    const char *why;
    struct fio_request request = {.folder = bench->rig->folder,
                                  .engine =
                                      io_probe(&why) == io_uring_table() ? "io_uring" : "psync",
                                  .sizes = bench->sizes,
                                  .depth = DEPTH,
                                  .block_bytes = BLOCK_BYTES};

    for (unsigned i = 0; i < rounds; i++) {
        rig_step(bench->rig, NULL); /* another step has another name */
        samples_add(&bench->save, save(bench));
        list_files(bench);
        request.file_count = bench->file_count;
        add_positive(&bench->fio_write, fio_write(&request));
        struct hash128 saved = state_hash(bench->rig->state);
        samples_add(&bench->restore, restore(bench));
        if (!hash128_equal(saved, state_hash(bench->rig->state)))
            measure_die("what was restored is not what was saved");
        add_positive(&bench->fio_read, fio_read(&request));
        fio_remove(&request);
        torch_save(bench, torch);
        rig_renew(bench->rig); /* the restored units lie elsewhere */
    }
}

/* ---- stall ---- */

static double timed_step(struct bench *bench, double *stall)
{
    double began = measure_now(), waited = rig_step(bench->rig, stall ? bench->snapshot : NULL);

    if (stall)
        *stall += waited;
    return measure_now() - began;
}

/* @steps undisturbed ones, then a checkpoint and the steps until it is on disk. */
static void save_while_training(struct bench *bench, unsigned steps)
{
    struct samples before = {0};
    double stall, extra = 0.0;

    for (unsigned i = 0; i < steps; i++)
        samples_add(&before, timed_step(bench, NULL));
    double undisturbed = samples_median(&before), began = measure_now();
    begin(bench);
    stall = measure_now() - began;
    extra = stall;
    do {
        double step = timed_step(bench, &stall);
        samples_add(&bench->step_saving, step);
        extra += step - undisturbed;
    } while (!committed(bench, 0));
    samples_add(&bench->step, undisturbed);
    samples_add(&bench->stall, stall);
    samples_add(&bench->extra, extra);
}

/* ---- drift ---- */

#define DRIFT_WARM 20 /* saves until every pool and arena has its size */

static double resident_bytes(void)
{
    char text[128] = "", *second;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || !fgets(text, sizeof(text), file) || !(second = strchr(text, ' ')))
        measure_die("/proc/self/statm cannot be read");
    fclose(file);
    return (double)strtoul(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static struct rig_options small_model(unsigned threads, const char *folder)
{
    return (struct rig_options){.layers = 4,
                                .width = 256,
                                .heads = 4,
                                .context = 64,
                                .vocab = 4096,
                                .micro_batch = 4,
                                .thread_count = threads,
                                .folder = folder};
}

static void measure_drift(struct measure *measure, const struct rig_options *options,
                          unsigned saves)
{
    static struct bench bench;
    struct error error = {0};
    double before = 0;

    bench.rig = rig_open(options);
    snprintf(bench.folder, sizeof(bench.folder), "%s/checkpoints", bench.rig->folder);
    const struct snapshot_options snapshots = {.folder = bench.folder, .node = "bench"};
    if (snapshot_new(bench.rig->state, &snapshots, &bench.snapshot, &error))
        measure_die("%s", error.text);
    for (unsigned i = 0; i < saves + DRIFT_WARM; i++) {
        if (i == DRIFT_WARM) {
            before = resident_bytes();
            bench.stall.count = 0;
        }
        save_while_training(&bench, 1);
    }
    double drift = resident_bytes() - before;
    printf(
        "drift    %+.1f MiB after %u saves of %.0f MB (aim: 64 MiB); stall p50 %.1f ms, p99 %.1f "
        "ms, step %.1f ms\n",
        drift / 1048576, saves, (double)bench.size_bytes / 1e6,
        1e3 * samples_quantile(&bench.stall, 0.5), 1e3 * samples_quantile(&bench.stall, 0.99),
        1e3 * samples_median(&bench.step));
    measure_number(measure, "drift_bytes", drift);
    measure_samples(measure, "small_stall_seconds", &bench.stall);
    measure_number(measure, "small_stall_p99_seconds", samples_quantile(&bench.stall, 0.99));
    snapshot_free(bench.snapshot);
    rig_close(bench.rig);
}

/* ---- report ---- */

static void report_transfer(struct measure *measure, const struct bench *bench, const char *name,
                            const struct samples *ours, const struct samples *fio)
{
    double bytes = (double)bench->size_bytes, seconds = samples_median(ours);
    char key[64];

    printf("%-8s %.2f GB in %.2f s: %.2f GB/s", name, bytes / 1e9, seconds, bytes / 1e9 / seconds);
    snprintf(key, sizeof(key), "%s_seconds", name);
    measure_samples(measure, key, ours);
    if (fio->count > 0) {
        printf("; fio %.2f GB/s; %.0f %% of fio's", bytes / 1e9 / samples_median(fio),
               100 * samples_median(fio) / seconds);
        snprintf(key, sizeof(key), "%s_of_fio", name);
        measure_number(measure, key, samples_median(fio) / seconds);
        snprintf(key, sizeof(key), "%s_fio_seconds", name);
        measure_samples(measure, key, fio);
    }
    printf("\n");
}

static void report_training(struct measure *measure, const struct bench *bench)
{
    double step = samples_median(&bench->step), saving = samples_median(&bench->step_saving);

    printf("stall    p50 %.1f ms, p99 %.1f ms of %u checkpoints (aim: p99 10 ms)\n",
           1e3 * samples_quantile(&bench->stall, 0.5), 1e3 * samples_quantile(&bench->stall, 0.99),
           bench->stall.count);
    printf(
        "steps    %.0f ms, while saving %.0f ms: %+.0f %%; a checkpoint costs %.2f s of training\n",
        1e3 * step, 1e3 * saving, 100 * (saving / step - 1), samples_median(&bench->extra));
    printf("         mean step while saving %+.1f %%, worst %+.0f %%\n",
           100 * (samples_mean(&bench->step_saving) / samples_mean(&bench->step) - 1),
           100 * (samples_quantile(&bench->step_saving, 1.0) / step - 1));
    measure_number(measure, "step_saving_mean_slowdown",
                   samples_mean(&bench->step_saving) / samples_mean(&bench->step) - 1);
    measure_number(measure, "step_saving_worst_slowdown",
                   samples_quantile(&bench->step_saving, 1.0) / step - 1);
    measure_samples(measure, "stall_seconds", &bench->stall);
    measure_number(measure, "stall_p99_seconds", samples_quantile(&bench->stall, 0.99));
    measure_samples(measure, "step_seconds", &bench->step);
    measure_samples(measure, "step_saving_seconds", &bench->step_saving);
    measure_samples(measure, "checkpoint_extra_seconds", &bench->extra);
}

static void report_torch(struct measure *measure, const struct bench *bench,
                         const struct peer *torch)
{
    if (!torch || bench->torch_save.count == 0) {
        printf("torch    left out: --torch names no script, or there is no PyTorch\n");
        return;
    }
    printf("torch    %s: %.2f s, %.1f times ours; its call holds training up for %.0f ms\n",
           peer_name(torch), samples_median(&bench->torch_save),
           samples_median(&bench->torch_save) / samples_median(&bench->save),
           1e3 * samples_median(&bench->torch_stall));
    measure_samples(measure, "torch_seconds", &bench->torch_save);
    measure_samples(measure, "torch_stall_seconds", &bench->torch_stall);
}

static struct peer *start_torch(int argc, char **argv, const struct bench *bench)
{
    const char *script = measure_option(argc, argv, "--torch", NULL);
    const char *python = getenv("FIRN_PYTHON");
    char folder[320];

    snprintf(folder, sizeof(folder), "%s/torch", bench->rig->folder);
    const char *const command[] = {python ? python : "python3", script, folder, NULL};
    return script ? peer_start(command) : NULL;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    unsigned rounds = measure_count(argc, argv, "--rounds", 3);
    unsigned checkpoints = measure_count(argc, argv, "--checkpoints", 6);
    unsigned threads = measure_count(argc, argv, "--threads", 2);
    unsigned saves = measure_count(argc, argv, "--saves", 200);
    struct rig_options options = rig_gpt2_124m(threads);
    struct error error = {0};

    setvbuf(stdout, NULL, _IOLBF, 0); /* it takes minutes: what is known is shown */
    options.folder = measure_option(argc, argv, "--folder", NULL);
    struct measure *measure = measure_begin(
        "checkpoint", "saving and restoring GPT-2 124M with AdamW beside fio, and beside training",
        argc, argv);
    bench.rig = rig_open(&options);
    snprintf(bench.folder, sizeof(bench.folder), "%s/checkpoints", bench.rig->folder);
    const struct snapshot_options snapshot_options = {.folder = bench.folder, .node = "bench"};
    if (snapshot_new(bench.rig->state, &snapshot_options, &bench.snapshot, &error))
        measure_die("%s", error.text);

    struct peer *torch = start_torch(argc, argv, &bench);
    measure_bandwidth(&bench, rounds, torch);
    report_transfer(measure, &bench, "save", &bench.save, &bench.fio_write);
    report_transfer(measure, &bench, "restore", &bench.restore, &bench.fio_read);
    report_torch(measure, &bench, torch);
    peer_stop(torch);
    for (unsigned i = 0; i < checkpoints; i++)
        save_while_training(&bench, 2);
    report_training(measure, &bench);

    snapshot_free(bench.snapshot);
    rig_close(bench.rig);
    options = small_model(threads, options.folder);
    measure_drift(measure, &options, saves);
    return measure_end(measure);
}
