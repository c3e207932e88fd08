/*
 * A damaged checkpoint: for a flipped byte in any file, the workers report the damage instead of
 * training on. From the checkpoint before it the run reaches the same bits, and rewrites the
 * damaged checkpoint.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "integration/worker_crew.h"

#define BEFORE 8
#define NEWEST 12

static void path_of(const struct crew *crew, uint64_t step, char ret_path[1024])
{
    char folder[512];

    snprintf(folder, sizeof(folder), "%s/checkpoints", crew->dir);
    checkpoint_path(folder, step, ret_path);
}

static void switch_to(struct crew *crew, uint64_t from_step)
{
    struct plan *plan = crew_plan(crew, 2, 1);

    if (from_step) {
        plan->start.source = PLAN_SOURCE_CHECKPOINT;
        plan->start.resume_step = from_step;
        path_of(crew, from_step, plan->start.restore_path);
    }
    crew_send(crew, plan, CONTROL_SWITCH);
    plan_free(plan);
}

/* Start both workers, which will end after @steps with a checkpoint. */
static void spawn_both(struct crew *crew, uint64_t steps)
{
    char path[512];
    struct error error = {0};

    crew->spec.train.steps = steps;
    AUTO_JSON json_t *tree = job_spec_encode(&crew->spec);
    AUTO_FREE char *text = json_text(tree);
    snprintf(path, sizeof(path), "%s/spec.json", crew->dir);
    assert_int_equal(file_replace(path, text, strlen(text), 0644, &error), 0);
    crew_spawn(crew, 0);
    crew_spawn(crew, 1);
}

static bool somebody_lost_the_checkpoint(const struct crew *crew, void *context)
{
    (void)context;
    for (unsigned slot = 0; slot < crew->count; slot++) {
        const struct worker_report *status = &crew->workers[slot].status;
        assert_false(crew->workers[slot].exited);
        assert_int_not_equal(status->phase, WORKER_RUNNING);
        if (status->phase == WORKER_STUCK && status->generation == crew->generation)
            return status->cause == CAUSE_CHECKPOINT_LOST;
    }
    return false;
}

static void flip_byte(const char *path, uint64_t offset)
{
    uint8_t byte;
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CLOEXEC);

    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, (off_t)offset), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)offset), 1);
}

/* The last byte of every file is data. Damaged lines of metrics are no reason to go back. */
static void damage_each_file(struct crew *crew)
{
    char path[1024], file[1280];
    struct manifest manifest;
    struct error error = {0};
    unsigned frozen = 0, segments = 0;

    path_of(crew, NEWEST, path);
    assert_int_equal(manifest_load(path, NULL, &manifest, &error), 0);
    for (size_t i = 0; i < manifest.file_count; i++) {
        const struct manifest_file *entry = &manifest.files[i];
        frozen += !strncmp(entry->name, "model-frozen-", 13);
        segments += !strncmp(entry->name, "metrics-", 8);
        if (!strncmp(entry->name, "metrics-", 8))
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->name);
        flip_byte(file, entry->size_bytes - 1);
        switch_to(crew, NEWEST);
        crew_pump(crew, somebody_lost_the_checkpoint, NULL, 30);
        flip_byte(file, entry->size_bytes - 1);
    }
    assert_true(frozen == 5 && /* stage 0 is all frozen */
                segments > 0 && manifest.file_count == 5 + 2 + 2 + segments);
    manifest_done(&manifest);
    snprintf(file, sizeof(file), "%s/%s", path, MANIFEST_NAME);
    flip_byte(file, 100);
    switch_to(crew, NEWEST);
    crew_pump(crew, somebody_lost_the_checkpoint, NULL, 30); /* and it stays damaged */
}

static void assert_good(const struct crew *crew, uint64_t step)
{
    char path[1024];
    struct checkpoint_reader *reader;
    struct error error = {0};

    path_of(crew, step, path);
    if (checkpoint_open(path, &reader, &error) || checkpoint_verify(reader, NULL, NULL, &error))
        fail_msg("%s", error.text);
    checkpoint_close(reader);
}

static void test_damage_leads_to_the_checkpoint_before(void **state)
{
    struct job_spec spec = crew_job("restore", CREW_GPT2, 12, 4, 1);
    struct crew crew;
    char newest[33], again[33], path[1024], aside[1280];

    (void)state;
    crew_init(&crew, &spec);
    spawn_both(&crew, BEFORE);
    switch_to(&crew, 0);
    crew_pump(&crew, crew_finished, NULL, 60);
    spawn_both(&crew, NEWEST);
    switch_to(&crew, BEFORE);
    crew_pump(&crew, crew_finished, NULL, 60);
    crew_digest(&crew, NEWEST, newest);

    spawn_both(&crew, NEWEST);
    damage_each_file(&crew);
    switch_to(&crew, BEFORE);
    crew_pump(&crew, crew_finished, NULL, 60);

    crew_digest(&crew, NEWEST, again);
    assert_string_equal(newest, again);
    assert_good(&crew, NEWEST);
    path_of(&crew, NEWEST, path);
    snprintf(aside, sizeof(aside), "%s.damaged", path);
    assert_int_equal(access(aside, F_OK), 0);
    crew_done(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_leads_to_the_checkpoint_before)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
