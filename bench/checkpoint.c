/*
 * The cost of a checkpoint for the training that it saves: GPT-2 124M with AdamW (1.5 GB), through
 * the worker's own step loop calls (worker/checkpoint/snapshot.h, worker/state/restore.h).
 *
 *   save       nothing else runs: from the beginning of a save to its commit on disk, beside fio
 *              writing files of the same sizes with O_DIRECT, the same blocks and depth, flush
 *              included, in the same rounds; then a restore of the whole state, every byte
 *              verified, and a scrub (firnctl checkpoint verify), both beside fio reading its files
 *   torch      the same state saved by torch.distributed.checkpoint.async_save, in turns with ours,
 *              if --torch names bench/checkpoint_torch.py and PyTorch is installed (FIRN_PYTHON)
 *   training   training continues: the stall of the step loop per checkpoint, the extra time of the
 *              steps, and the processor time that a checkpoint takes from the steps
 *              (bench/lib/disturbance.h)
 *   small      the same with a small model (50 MB), whose steps are shorter than a save
 *   drift      the memory that the process has gained after many saves of the full size
 *
 * --parts selects some of them; the default is all. Needs about 4 GB of disk below --folder
 * (TMPDIR, else /tmp), removed at the end.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "bench/lib/backend.h"
#include "bench/lib/disturbance.h"
#include "bench/lib/fio.h"
#include "bench/lib/peer.h"
#include "bench/lib/usage.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/io/io.h"
#include "checkpoint/read/reader.h"
#include "worker/state/restore.h"

/* As in worker/checkpoint/snapshot.c and checkpoint/write/writer.c. */
#define DEPTH       8
#define BLOCK_BYTES ((size_t)4 << 20)
#define FILES_MAX   4

#define UNDISTURBED_STEPS 2  /* between checkpoints */
#define DRIFT_WARM        20 /* saves until every pool and arena has its size */

struct bench {
    struct saving saving;
    size_t sizes[FILES_MAX];
    unsigned file_count;
    struct samples save, save_cpu, restore, verify, fio_write, fio_read;
    struct samples torch_save, torch_stall;
};

/* ---- the files of the last checkpoint ---- */

static void list_files(struct bench *bench)
{
    struct manifest manifest = {0};
    struct error error = {0};

    if (manifest_load(bench->saving.path, NULL, &manifest, &error))
        measure_die("%s", error.text);
    bench->file_count = 0;
    for (size_t i = 0; i < manifest.file_count; i++)
        if (manifest.files[i].size_bytes >= BLOCK_BYTES && bench->file_count < FILES_MAX)
            bench->sizes[bench->file_count++] = manifest.files[i].size_bytes;
    manifest_done(&manifest);
}

/* Drop the files from the page cache, so that a restore reads the disk. */
static void forget_files(const struct bench *bench)
{
    struct manifest manifest = {0};
    struct error error = {0};

    if (manifest_load(bench->saving.path, NULL, &manifest, &error))
        measure_die("%s", error.text);
    for (size_t i = 0; i < manifest.file_count; i++) {
        char path[JOB_PATH_SIZE + MANIFEST_FILE_SIZE + 2];
        snprintf(path, sizeof(path), "%s/%s", bench->saving.path, manifest.files[i].name);
        AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if (descriptor >= 0)
            posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    }
    manifest_done(&manifest);
}

/* ---- bandwidth ---- */

static double restore(struct bench *bench)
{
    struct rig *rig = bench->saving.rig;
    struct error error = {0};

    forget_files(bench);
    double began = measure_now();
    if (restore_units(rig->state, bench->saving.path, 0, rig->state->unit_count, &error))
        measure_die("%s", error.text);
    return measure_now() - began;
}

/* Verify the checkpoint as `firnctl checkpoint verify` does. */
static double verify(const struct bench *bench)
{
    struct checkpoint_reader *reader;
    struct error error = {0};

    forget_files(bench);
    double began = measure_now();
    if (checkpoint_open(bench->saving.path, &reader, &error) ||
        checkpoint_verify(reader, NULL, NULL, &error))
        measure_die("%s", error.text);
    checkpoint_close(reader);
    return measure_now() - began;
}

/* Return the hash of all parameters and moments, the mirror's included. A restore must give the
 * same hash. */
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
    struct fio_request request = {.folder = bench->saving.rig->scratch.path,
                                  .engine =
                                      io_probe(&why) == io_uring_table() ? "io_uring" : "psync",
                                  .sizes = bench->sizes,
                                  .depth = DEPTH,
                                  .block_bytes = BLOCK_BYTES};

    for (unsigned i = 0; i < rounds; i++) {
        rig_step(bench->saving.rig, NULL); /* a new step gives the next checkpoint a new name */
        double cpu = measure_cpu();
        samples_add(&bench->save, saving_save(&bench->saving));
        samples_add(&bench->save_cpu, measure_cpu() - cpu);
        list_files(bench);
        request.file_count = bench->file_count;
        add_positive(&bench->fio_write, fio_write(&request));
        struct hash128 saved = state_hash(bench->saving.rig->state);
        samples_add(&bench->restore, restore(bench));
        if (!hash128_equal(saved, state_hash(bench->saving.rig->state)))
            measure_die("what was restored is not what was saved");
        samples_add(&bench->verify, verify(bench));
        add_positive(&bench->fio_read, fio_read(&request));
        fio_remove(&request);
        torch_save(bench, torch);
        rig_renew(bench->saving.rig); /* the restored units have new addresses */
    }
}

/* ---- drift ---- */

static double resident_bytes(void)
{
    char text[128] = "", *second;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || !fgets(text, sizeof(text), file) || !(second = strchr(text, ' ')))
        measure_die("/proc/self/statm cannot be read");
    fclose(file);
    return (double)strtoul(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

/* Save the same state many times. Only the step changes, and with it the folder. */
static void measure_drift(struct measure *measure, struct saving *saving, unsigned saves)
{
    static struct samples seconds;
    double before = 0;

    for (unsigned i = 0; i < saves + DRIFT_WARM; i++) {
        if (i == DRIFT_WARM)
            before = resident_bytes();
        saving->rig->state->applied_step++;
        double took = saving_save(saving);
        if (i >= DRIFT_WARM)
            samples_add(&seconds, took);
    }
    double drift = resident_bytes() - before;
    printf(
        "drift    %+.1f MiB after %u saves of %.0f MB (aim: 64 MiB), one behind the other; p50 %.2f s, "
        "p99 %.2f s\n",
        drift / 1048576, saves, (double)saving->size_bytes / 1e6, samples_quantile(&seconds, 0.5),
        samples_quantile(&seconds, 0.99));
    measure_number(measure, "drift_bytes", drift);
    measure_samples(measure, "drift_save_seconds", &seconds);
}

/* ---- training ---- */

static struct rig_options small_model(const struct rig_options *large)
{
    return (struct rig_options){.layers = 4,
                                .width = 256,
                                .heads = 4,
                                .context = 64,
                                .vocab = 4096,
                                .micro_batch = 4,
                                .thread_count = large->thread_count,
                                .kernel = large->kernel,
                                .folder = large->folder};
}

static void measure_training(struct measure *measure, struct saving *saving, unsigned rounds,
                             unsigned threads, const char *prefix)
{
    static struct disturbance disturbance;

    disturbance = (struct disturbance){0};
    disturbance_measure(&disturbance, saving, rounds, UNDISTURBED_STEPS);
    disturbance_report(&disturbance, saving, threads, measure, prefix);
}

static void measure_small(struct measure *measure, const struct rig_options *options,
                          unsigned rounds)
{
    static struct saving saving;

    saving_open(&saving, rig_open(options));
    measure_training(measure, &saving, rounds, options->thread_count, "small_");
    saving_close(&saving);
    rig_close(saving.rig);
}

/* ---- report ---- */

static void report_transfer(struct measure *measure, const struct bench *bench, const char *name,
                            const struct samples *ours, const struct samples *fio)
{
    double bytes = (double)bench->saving.size_bytes, seconds = samples_median(ours);
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

static void report_processors(struct measure *measure, const struct bench *bench)
{
    printf("         of processors %.2f s, %.1f GB/s\n", samples_median(&bench->save_cpu),
           (double)bench->saving.size_bytes / 1e9 / samples_median(&bench->save_cpu));
    measure_samples(measure, "save_cpu_seconds", &bench->save_cpu);
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

    snprintf(folder, sizeof(folder), "%s/torch", bench->saving.rig->scratch.path);
    const char *const command[] = {python ? python : "python3", script, folder, NULL};
    return script ? peer_start(command) : NULL;
}

static void measure_saves(struct measure *measure, struct bench *bench, unsigned rounds, int argc,
                          char **argv)
{
    struct peer *torch = start_torch(argc, argv, bench);

    measure_bandwidth(bench, rounds, torch);
    report_transfer(measure, bench, "save", &bench->save, &bench->fio_write);
    report_processors(measure, bench);
    report_transfer(measure, bench, "restore", &bench->restore, &bench->fio_read);
    report_transfer(measure, bench, "verify", &bench->verify, &bench->fio_read);
    report_torch(measure, bench, torch);
    peer_stop(torch);
}

static const struct usage_option known[] = {
    {"--parts", "LIST", "of save, training, drift, small (all)"},
    {"--rounds", "N", "of the part save (3)"},
    {"--checkpoints", "N", "of the part training (40)"},
    {"--saves", "N", "of the parts drift and small (200)"},
    {"--threads", "N", "that compute (2)"},
    {"--backend", "NAME", "cuda or cpu (as it is)"},
    {"--precision", "NAME", "of cuda: bf16 (as it is), tf32 or f32"},
    {"--folder", "PATH", "where checkpoints go (TMPDIR, else /tmp)"},
    {"--torch", "SCRIPT", "bench/checkpoint_torch.py: PyTorch's save beside it"},
};

/* Run the selected parts that use the full model. */
static void measure_full(struct measure *measure, const char *parts,
                         const struct rig_options *options, int argc, char **argv)
{
    static struct bench bench;

    saving_open(&bench.saving, rig_open(options));
    if (strstr(parts, "save"))
        measure_saves(measure, &bench, measure_count(argc, argv, "--rounds", 3), argc, argv);
    if (strstr(parts, "training"))
        measure_training(measure, &bench.saving, measure_count(argc, argv, "--checkpoints", 40),
                         options->thread_count, "");
    if (strstr(parts, "drift"))
        measure_drift(measure, &bench.saving, measure_count(argc, argv, "--saves", 200));
    saving_close(&bench.saving);
    rig_close(bench.saving.rig);
}

int main(int argc, char **argv)
{
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    const char *parts = measure_option(argc, argv, "--parts", "save,training,drift,small");
    struct rig_options large = rig_gpt2_124m(measure_count(argc, argv, "--threads", 2));
    bool full = strstr(parts, "save") || strstr(parts, "training") || strstr(parts, "drift");

    if (!full && !strstr(parts, "small"))
        measure_die("--parts: \"%s\" is none of save, training, drift, small", parts);
    setvbuf(stdout, NULL, _IOLBF, 0); /* the benchmark takes minutes: show each result at once */
    struct measure *measure = measure_begin(
        "checkpoint", "saving and restoring GPT-2 124M with AdamW beside fio, and beside training",
        argc, argv);
    large.folder = measure_option(argc, argv, "--folder", NULL);
    large.kernel = backend_chosen(argc, argv, "cpu");
    const struct rig_options small = small_model(&large);
    if (full)
        measure_full(measure, parts, &large, argc, argv);
    if (strstr(parts, "small"))
        measure_small(measure, &small, measure_count(argc, argv, "--saves", 200));
    return measure_end(measure);
}
