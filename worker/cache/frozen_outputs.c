#include "worker/cache/frozen_outputs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/size_words.h"
#include "worker/cache/first_times.h"
#include "worker/cache/output_file.h"
#include "worker/cache/outputs_fetch.h"

#define PATH_SIZE    1024
#define NAME_PREFIX  "outputs-"
#define LOOK_EVERY   64  /* writes between two looks at the free space */
#define WRITE_PART   2   /* writing may take this part of the time of computing */
#define BUDGET_FILES 2   /* the file in use and the one before */
#define MET_STAYS    0.8 /* weight of a step beside the one after it */
#define ENDED_MAX    8   /* fetches of ended generations, which may still wait for a node */

struct stored {
    struct output_file *file; /* NULL: none */
    char name[sizeof(NAME_PREFIX) + HASH128_TEXT_SIZE];
    unsigned unit_count;
    struct output_file_shape shape;
    uint64_t room; /* samples that fit */
};

/* Whether loading is faster than computing, and writing fast enough. */
struct speed {
    unsigned to_compute;                    /* outputs that are computed in any case */
    struct first_times loads, computations; /* after a beginning */
    uint64_t write_ns;                      /* of all writes */
    unsigned writes;
    bool judged;
};

/* How the recent samples were obtained, in samples; older ones weigh less. Samples that are
 * computed in any case were not looked up. */
struct met {
    double loaded, continued, computed;
    unsigned unasked; /* since the counts were taken last */
};

struct frozen_outputs {
    char folder[PATH_SIZE];
    struct hash128 numerics;
    uint64_t budget_bytes;
    size_t sample_bytes;
    struct stored now, before;
    struct speed speed;
    bool loads, writes_on;
    struct outputs_fetch *fetch;            /* into `now`; NULL: nothing is fetched */
    bool fetch_pays;                        /* fetching has proved faster than computing */
    struct outputs_fetch *ended[ENDED_MAX]; /* stopped, the oldest first */
    unsigned ended_count;
    struct frozen_outputs_counts counts;
    struct met met;
};

struct frozen_outputs *frozen_outputs_new(const char *folder, const char *numerics,
                                          uint64_t budget_bytes)
{
    struct frozen_outputs *outputs = calloc(1, sizeof(*outputs));

    if (!outputs)
        return NULL;
    outputs->budget_bytes = budget_bytes;
    outputs->numerics = hash_xxh3(numerics, strlen(numerics));
    if ((size_t)snprintf(outputs->folder, sizeof(outputs->folder), "%s", folder) >=
        sizeof(outputs->folder))
        outputs->budget_bytes = 0;
    return outputs;
}

static void close_stored(struct stored *stored)
{
    output_file_close(stored->file);
    *stored = (struct stored){0};
}

/* Free the stopped fetches that have ended, and the oldest of the others beyond @most. */
static void free_ended(struct frozen_outputs *outputs, unsigned most)
{
    unsigned stay = 0;

    for (unsigned i = 0; i < outputs->ended_count; i++) {
        struct outputs_fetch *fetch = outputs->ended[i];
        if (outputs->ended_count - i > most || outputs_fetch_is_over(fetch))
            outputs_fetch_free(fetch);
        else
            outputs->ended[stay++] = fetch;
    }
    outputs->ended_count = stay;
}

void frozen_outputs_free(struct frozen_outputs *outputs)
{
    if (!outputs)
        return;
    frozen_outputs_leave(outputs);
    free_ended(outputs, 0);
    free(outputs);
}

/* ---- files ---- */

static struct hash128 key_of(const struct frozen_outputs *outputs,
                             const struct frozen_outputs_part *part)
{
    const struct hash128 hashes[] = {hash_xxh3(FIRN_VERSION, strlen(FIRN_VERSION)),
                                     outputs->numerics, part->weights, part->data};
    uint64_t words[2 * ARRAY_COUNT(hashes) + 4];
    unsigned count = 0;

    for (unsigned i = 0; i < ARRAY_COUNT(hashes); i++) {
        words[count++] = hashes[i].high;
        words[count++] = hashes[i].low;
    }
    words[count++] = part->last_dispute;
    words[count++] = part->unit_count;
    words[count++] = part->sample_count;
    words[count++] = part->sample_bytes;
    return hash_xxh3(words, count * sizeof(*words));
}

static void path_in(const char *folder, const char *name, char ret_path[PATH_SIZE + 256])
{
    snprintf(ret_path, PATH_SIZE + 256, "%s/%s", folder, name);
}

static bool is_kept(const struct frozen_outputs *outputs, const char *name)
{
    return outputs &&
           (strcmp(name, outputs->now.name) == 0 || strcmp(name, outputs->before.name) == 0);
}

/* Remove all files but those in use. @outputs: NULL: none is */
static void remove_files(const char *folder, const struct frozen_outputs *outputs)
{
    char path[PATH_SIZE + 256];
    DIR *directory = opendir(folder);

    if (!directory)
        return;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (strncmp(entry->d_name, NAME_PREFIX, sizeof(NAME_PREFIX) - 1) != 0 ||
            is_kept(outputs, entry->d_name))
            continue;
        path_in(folder, entry->d_name, path);
        unlink(path);
    }
    closedir(directory);
}

void frozen_outputs_leave(struct frozen_outputs *outputs)
{
    if (!outputs)
        return;
    frozen_outputs_part_company(outputs);
    close_stored(&outputs->now);
    close_stored(&outputs->before);
}

void frozen_outputs_finish(struct frozen_outputs *outputs)
{
    frozen_outputs_leave(outputs);
    remove_files(outputs->folder, NULL);
    rmdir(outputs->folder);
}

static int open_stored(const struct frozen_outputs *outputs, const struct frozen_outputs_part *part,
                       struct stored *ret_stored, struct error *error)
{
    char key[HASH128_TEXT_SIZE], path[PATH_SIZE + 256];
    struct stored stored = {.unit_count = part->unit_count};
    struct output_file_shape shape = {
        .key = key_of(outputs, part),
        .count = MIN(part->sample_count, outputs->budget_bytes / BUDGET_FILES /
                                             output_file_record_bytes(part->sample_bytes)),
        .size_bytes = part->sample_bytes,
    };

    hash128_text(shape.key, key);
    snprintf(stored.name, sizeof(stored.name), NAME_PREFIX "%s", key);
    path_in(outputs->folder, stored.name, path);
    stored.shape = shape;
    stored.room = shape.count;
    int status = file_make_directories(outputs->folder, 0700, error);
    if (!status)
        status = output_file_open(path, &shape, &stored.file, error);
    if (!status)
        *ret_stored = stored;
    return status;
}

/* Keep a file with fewer layers than @part open: computing continues from its outputs. */
static void turn(struct frozen_outputs *outputs, const struct frozen_outputs_part *part)
{
    if (outputs->now.file && outputs->now.unit_count < part->unit_count &&
        outputs->sample_bytes == part->sample_bytes) {
        close_stored(&outputs->before);
        outputs->before = outputs->now;
        outputs->now = (struct stored){0};
    }
    close_stored(&outputs->now);
    if (outputs->before.unit_count >= part->unit_count ||
        outputs->sample_bytes != part->sample_bytes)
        close_stored(&outputs->before);
}

bool frozen_outputs_begin(struct frozen_outputs *outputs, const struct frozen_outputs_part *part)
{
    struct error error = {0};
    char key[HASH128_TEXT_SIZE], size[SIZE_WORDS_SIZE];

    if (!outputs->budget_bytes)
        return false;
    hash128_text(key_of(outputs, part), key);
    if (outputs->now.file && strcmp(outputs->now.name + sizeof(NAME_PREFIX) - 1, key) == 0)
        return true;
    frozen_outputs_part_company(outputs);
    turn(outputs, part);
    outputs->sample_bytes = part->sample_bytes;
    if (open_stored(outputs, part, &outputs->now, &error)) {
        log_warning("outputs of frozen layers are not kept: %s", error.text);
        return false;
    }
    outputs->speed = (struct speed){.to_compute = FIRST_TIMES};
    /* An estimate until samples are looked up again: samples found before are continued now. */
    outputs->met = outputs->before.file
                       ? (struct met){.continued = outputs->met.loaded,
                                      .computed = outputs->met.continued + outputs->met.computed}
                       : (struct met){0};
    outputs->loads = outputs->writes_on = true;
    remove_files(outputs->folder, outputs);
    log_info("outputs of %u frozen units are kept for %" PRIu64 " of %" PRIu64
             " samples, %s when all are there, in %s",
             part->unit_count, outputs->now.room, part->sample_count,
             size_words(outputs->now.room * output_file_record_bytes(part->sample_bytes), size),
             outputs->folder);
    return true;
}

static bool has_room(const struct frozen_outputs *outputs, uint64_t index)
{
    return outputs->now.file && index < outputs->now.room;
}

/* ---- loading ---- */

/* Compare the medians once both are known. */
static void judge(struct frozen_outputs *outputs)
{
    struct speed *speed = &outputs->speed;

    if (speed->judged || !first_times_are_known(&speed->loads) ||
        !first_times_are_known(&speed->computations))
        return;
    double load_ms = first_times_median_ms(&speed->loads),
           compute_ms = first_times_median_ms(&speed->computations);
    speed->judged = true;
    outputs->loads = load_ms < compute_ms;
    outputs->writes_on = outputs->writes_on && outputs->loads;
    log_info("the frozen layers' output of a sample takes %.2f ms to load and %.2f ms to compute%s",
             load_ms, compute_ms, outputs->loads ? "" : ": nothing is loaded any more");
}

static bool read_from(struct frozen_outputs *outputs, struct stored *stored, uint64_t index,
                      void *content)
{
    int status = output_file_read(stored->file, index, content);

    if (status && status != -ENOENT && status != -EBADMSG) {
        log_warning("outputs of frozen layers in %s cannot be read, and are computed: %s",
                    outputs->folder, strerror(-status));
        outputs->loads = outputs->writes_on = false;
    }
    return !status;
}

static unsigned find(struct frozen_outputs *outputs, uint64_t index,
                     const struct frozen_outputs_target *target)
{
    struct stored *places[BUDGET_FILES] = {&outputs->now, &outputs->before};

    for (unsigned i = 0; i < BUDGET_FILES && outputs->loads; i++)
        if (places[i]->file && index < places[i]->room &&
            read_from(outputs, places[i], index,
                      target->at(target->context, places[i]->unit_count)))
            return places[i]->unit_count;
    return 0;
}

unsigned frozen_outputs_load(struct frozen_outputs *outputs, uint64_t index,
                             const struct frozen_outputs_target *target)
{
    struct speed *speed = &outputs->speed;
    uint64_t began_ns = clock_monotonic_ns();

    if (!has_room(outputs, index) || !outputs->loads)
        return 0;
    if (speed->to_compute) {
        speed->to_compute--;
        outputs->met.unasked++;
        return 0;
    }
    unsigned found = find(outputs, index, target);
    if (found == outputs->now.unit_count) {
        outputs->counts.loaded++;
        first_times_note(&speed->loads, clock_monotonic_ns() - began_ns);
        judge(outputs);
    }
    return found;
}

/* ---- keeping ---- */

static bool has_space(struct frozen_outputs *outputs)
{
    if (outputs->speed.writes % LOOK_EVERY || output_file_has_space(outputs->now.file))
        return true;
    log_warning("less than a tenth of the file system of %s is free: no more outputs of frozen "
                "layers are kept",
                outputs->folder);
    return false;
}

static int write_output(struct frozen_outputs *outputs, uint64_t index, const void *output)
{
    uint64_t began_ns = clock_monotonic_ns();
    int status = output_file_write(outputs->now.file, index, output);

    outputs->speed.write_ns += clock_monotonic_ns() - began_ns;
    outputs->speed.writes++;
    return status;
}

/* The kernel blocks a process that writes faster than the disk. */
static bool keeps_up(const struct frozen_outputs *outputs)
{
    const struct speed *speed = &outputs->speed;

    if (speed->writes < LOOK_EVERY || !first_times_are_known(&speed->computations))
        return true;
    double write_ms = (double)speed->write_ns / speed->writes / 1e6;
    double compute_ms = first_times_median_ms(&speed->computations);
    if (write_ms <= 1 || write_ms <= compute_ms / WRITE_PART)
        return true;
    log_warning("the disk of %s takes %.1f ms for the output of a sample, which takes %.1f ms to "
                "compute: no more outputs of frozen layers are kept",
                outputs->folder, write_ms, compute_ms);
    return false;
}

bool frozen_outputs_is_active(const struct frozen_outputs *outputs)
{
    return outputs->loads || outputs->writes_on;
}

bool frozen_outputs_keeps(const struct frozen_outputs *outputs, uint64_t index)
{
    return has_room(outputs, index) && outputs->writes_on;
}

void frozen_outputs_pass(struct frozen_outputs *outputs, unsigned from, uint64_t took_ns)
{
    outputs->counts.continued += from > 0;
    outputs->counts.computed += from == 0;
    if (from > 0 || took_ns == 0)
        return;
    first_times_note(&outputs->speed.computations, took_ns);
    judge(outputs);
}

void frozen_outputs_keep(struct frozen_outputs *outputs, uint64_t index, const void *output,
                         unsigned from, uint64_t took_ns)
{
    frozen_outputs_pass(outputs, from, took_ns);
    outputs->writes_on = outputs->writes_on && has_space(outputs);
    int status = output && outputs->writes_on ? write_output(outputs, index, output) : 0;
    if (status)
        log_warning("no more outputs of frozen layers are kept in %s: %s", outputs->folder,
                    strerror(-status));
    outputs->writes_on = outputs->writes_on && !status && keeps_up(outputs);
}

void frozen_outputs_expect(const struct frozen_outputs *outputs, uint64_t index)
{
    if (has_room(outputs, index) && outputs->loads)
        output_file_expect(outputs->now.file, index);
}

/* ---- other nodes ---- */

void frozen_outputs_reach(struct frozen_outputs *outputs,
                          const struct checkpoint_remote_options *others)
{
    char path[PATH_SIZE + 256];
    struct error error = {0};

    frozen_outputs_part_company(outputs);
    if (!outputs->now.room || !others->node_count)
        return;
    path_in(outputs->folder, outputs->now.name, path);
    const struct outputs_fetch_file file = {path, outputs->now.name, outputs->now.shape};
    if (outputs_fetch_new(&file, others, &outputs->fetch, &error)) {
        log_warning("outputs of frozen layers are not fetched from other nodes: %s", error.text);
        outputs->fetch = NULL;
    }
}

/* The end of a generation must not wait for a node that does not answer. */
void frozen_outputs_part_company(struct frozen_outputs *outputs)
{
    uint64_t count = outputs && outputs->fetch ? outputs_fetch_count(outputs->fetch) : 0;

    if (!outputs || !outputs->fetch)
        return;
    if (count > 0)
        log_info("%" PRIu64 " outputs of frozen layers came from other nodes", count);
    outputs_fetch_stop(outputs->fetch);
    free_ended(outputs, ENDED_MAX - 1);
    outputs->ended[outputs->ended_count++] = outputs->fetch;
    outputs->fetch = NULL;
    outputs->fetch_pays = false;
}

/* Compare the medians once both are known. */
static void judge_fetch(struct frozen_outputs *outputs)
{
    double fetch_ms = outputs_fetch_typical_ms(outputs->fetch);

    if (fetch_ms <= 0 || !first_times_are_known(&outputs->speed.computations))
        return;
    double compute_ms = first_times_median_ms(&outputs->speed.computations);
    outputs->fetch_pays = fetch_ms < compute_ms;
    log_info("the frozen layers' output of a sample takes %.2f ms to fetch from another node and "
             "%.2f ms to compute%s",
             fetch_ms, compute_ms, outputs->fetch_pays ? "" : ": nothing is fetched any more");
    if (!outputs->fetch_pays)
        frozen_outputs_part_company(outputs);
}

void frozen_outputs_begin_step(struct frozen_outputs *outputs)
{
    if (outputs->fetch && !outputs->fetch_pays)
        judge_fetch(outputs);
    if (outputs->fetch)
        outputs_fetch_begin_step(outputs->fetch);
}

void frozen_outputs_want(struct frozen_outputs *outputs, uint64_t index)
{
    if (outputs->fetch && has_room(outputs, index) && outputs->loads && outputs->writes_on)
        outputs_fetch_want(outputs->fetch, index);
}

static void condemn(const struct stored *stored)
{
    if (stored->file)
        output_file_condemn(stored->file);
}

void frozen_outputs_condemn(struct frozen_outputs *outputs)
{
    condemn(&outputs->now);
    condemn(&outputs->before);
    frozen_outputs_finish(outputs);
}

unsigned frozen_outputs_met(const struct frozen_outputs *outputs, double *ret_share)
{
    const struct met *met = &outputs->met;
    bool continues = met->continued > met->loaded;
    double found = met->loaded + (continues ? met->continued : 0);

    *ret_share = found > 0 ? found / (met->loaded + met->continued + met->computed) : 0;
    if (found <= 0)
        return 0;
    return continues ? outputs->before.unit_count : outputs->now.unit_count;
}

struct frozen_outputs_counts frozen_outputs_take_counts(struct frozen_outputs *outputs)
{
    struct frozen_outputs_counts counts = outputs->counts;
    struct met *met = &outputs->met;

    met->loaded = MET_STAYS * met->loaded + (double)counts.loaded;
    met->continued = MET_STAYS * met->continued + (double)counts.continued;
    met->computed = MET_STAYS * met->computed + (double)(counts.computed - met->unasked);
    met->unasked = 0;
    outputs->counts = (struct frozen_outputs_counts){0};
    return counts;
}
