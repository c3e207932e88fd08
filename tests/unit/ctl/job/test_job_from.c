/*
 * Beginning a job from a checkpoint: the settings read from it, and the settings that may differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/write/folder_commit.h"
#include "ctl/job/job_from.h"
#include "ctl/job/job_risk.h"
#include "lib/checkpoint/sample.h"

static struct job_spec spec, origin;

static void make_spec(struct job_spec *into, unsigned layers, unsigned steps, double lr)
{
    struct error error = {0};
    AUTO_JSON json_t *tree =
        json_pack("{s:s, s:{s:i, s:i, s:i, s:i}, s:{s:s}, s:{s:i, s:{s:f}}}", "name", "sample",
                  "model", "layers", (int)layers, "width", 8, "heads", 2, "context", 16, "data",
                  "path", "/x", "train", "steps", (int)steps, "optimizer", "lr", lr);
    if (job_spec_decode(tree, "test", NULL, NULL, into, &error))
        fail_msg("%s", error.text);
}

/* Write a checkpoint of step 12 whose manifest holds the job. */
static void write_checkpoint(char folder[64], const struct job_spec *remembered)
{
    const char *why;
    const struct io *io = io_probe(&why);
    char path[1024], sha256[65];
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    struct manifest part = {0}, manifest = {0};
    struct error error = {0};
    struct sample sample;
    struct checkpoint_writer *writer = sample_writer(io, 0);
    AUTO_JSON json_t *config = json_pack("{s:s}", "model_type", "gpt2");

    sample_folder(folder);
    sample_init(&sample, 12);
    struct checkpoint_share share = sample_share(&sample, folder, 12, 0, 1, tensors);
    share.generation = 7;
    assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
    assert_int_equal(checkpoint_writer_wait(writer, UINT64_MAX / 2, &part, &error), 1);
    assert_int_equal(manifest_merge(&manifest, &part, &error), 0);
    manifest.spec = job_spec_encode(remembered);
    manifest.state = json_pack("{s:{}}", "freeze");
    assert_int_equal(manifest_seal(&manifest, sample.count, &error), 0);
    assert_int_equal(folder_commit(io, folder, &manifest, config, path, sha256, &error), 0);
    manifest_done(&part);
    manifest_done(&manifest);
    sample_done(&sample);
    checkpoint_writer_stop(writer);
}

static void test_a_checkpoint_remembers_its_job(void **state)
{
    struct checkpoint_record record;
    struct error error = {0};
    struct manifest manifest;
    char folder[64], path[1024];
    (void)state;
    make_spec(&spec, 2, 40, 0.001);
    write_checkpoint(folder, &spec);
    checkpoint_path(folder, 12, path);
    for (unsigned i = 0; i < 2; i++) { /* by its own path, and as the newest of the folder */
        if (job_from_load(i ? path : folder, &record, &origin, &error))
            fail_msg("%s", error.text);
        assert_string_equal(record.path, path);
        assert_int_equal(record.step, 12);
        assert_int_equal(record.generation, 7);
        assert_true(record.size_bytes > 1000);
        assert_int_equal(origin.train.steps, 40);
        assert_string_equal(origin.name, "sample");
    }
    /* The recorded hash is the hash that a reader will be asked to find. */
    assert_int_equal(manifest_load(path, record.manifest_sha256, &manifest, &error), 0);
    manifest_done(&manifest);
    assert_int_equal(job_from_load("/nowhere/at/all", &record, &origin, &error), -ENOENT);
    snprintf(path + strlen(path), 32, "/config.json");
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(job_from_load(folder, &record, &origin, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "config.json"));
    sample_remove(folder);
}

static void test_differences_are_named(void **state)
{
    struct checkpoint_record record = {.step = 12, .path = "/c/step-0000000012"};
    struct error error = {0};
    char differences[256];
    (void)state;
    make_spec(&origin, 2, 40, 0.001);
    make_spec(&spec, 2, 40, 0.001);
    spec.elastic.devices_max = 3; /* the bits do not depend on it */
    assert_int_equal(
        job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), 0);
    assert_string_equal(differences, "");
    make_spec(&spec, 2, 80, 0.002);
    assert_int_equal(
        job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), 0);
    assert_non_null(strstr(differences, "train.steps 40 -> 80"));
    assert_non_null(strstr(differences, "train.optimizer.lr"));
    make_spec(&spec, 3, 40, 0.001);
    assert_int_equal(
        job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), -EINVAL);
    assert_non_null(strstr(error.text, "model.layers 2 -> 3"));
    make_spec(&spec, 2, 12, 0.001);
    assert_int_equal(
        job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), -EINVAL);
    assert_non_null(strstr(error.text, "train.steps"));
}

/* A restored state has its own frozen layers. */
static void test_no_more_layers_begin_frozen(void **state)
{
    struct checkpoint_record record = {
        .step = 12, .path = "/c/step-0000000012", .frozen_layers = 1};
    struct error error = {0};
    char differences[256];
    (void)state;
    make_spec(&origin, 2, 40, 0.001);
    make_spec(&spec, 2, 40, 0.001);
    spec.elastic.freeze.from_start = 1;
    assert_int_equal(
        job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), 0);
    record.frozen_layers = 0;
    assert_int_equal(
        job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), -EINVAL);
    assert_non_null(strstr(error.text, "elastic.freeze.from_start is 1"));
}

/* Keys that a job's JSON has only if they are not the default, lost or new. */
static void test_omitted_keys_are_compared_both_ways(void **state)
{
    struct checkpoint_record record = {.step = 12, .path = "/c/step-0000000012"};
    struct error error = {0};
    char differences[256];
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct job_spec *with = i ? &spec : &origin;
        make_spec(&origin, 2, 40, 0.001);
        make_spec(&spec, 2, 40, 0.001);
        strcpy(with->data.mask.paths[0], "/m");
        with->data.mask.count = 1;
        assert_int_equal(
            job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error), 0);
        assert_non_null(strstr(differences, "data.mask"));
        strcpy(spec.model.family, "llama");
        strcpy(origin.model.family, "llama");
        with->model.qk_norm = true;
        with->model.rope_scaling.type = JOB_ROPE_LLAMA3;
        assert_int_equal(
            job_from_check(&spec, &origin, &record, differences, sizeof(differences), &error),
            -EINVAL);
        assert_non_null(strstr(error.text, "model.qk_norm"));
        assert_non_null(strstr(error.text, "model.rope_scaling.type"));
    }
}

static void test_what_is_at_risk(void **state)
{
    char folder[64];
    struct error error = {0};
    struct checkpoint_record records[2] = {{.step = 100, .unix_ns = 7000000000},
                                           {.step = 50, .unix_ns = 1000000000}};
    struct cluster_job job = {.checkpoints = records, .has_progress = true};
    (void)state;
    make_spec(&origin, 2, 40, 0.001);
    write_checkpoint(folder, &origin);
    checkpoint_path(folder, 12, records[1].path);
    job.progress.step = 130;
    struct job_risk risk = job_risk(&job, 9500000000);
    assert_null(risk.durable);
    assert_int_equal(risk.lost_steps, 130);
    assert_true(isnan(risk.lost_seconds)); /* no node has reported the duration of a step */
    job.checkpoint_count = 2;
    job.progress.step_seconds = 0.5;
    risk = job_risk(&job, 9500000000);
    assert_int_equal(risk.lost_steps, 30);
    assert_true(risk.lost_seconds == 15.0);
    assert_int_equal(risk.durable->step, 100);
    assert_true(risk.durable_age_seconds == 2.5);
    assert_null(risk.verified);
    assert_int_equal(checkpoint_mark_verified(records[1].path, &error), 0);
    risk = job_risk(&job, 9500000000);
    assert_int_equal(risk.verified->step, 50);
    AUTO_JSON json_t *tree = job_risk_json(&risk);
    assert_int_equal(json_integer_value(json_object_get(tree, "lost_steps")), 30);
    assert_int_equal(json_integer_value(json_object_get(tree, "verified_step")), 50);
    job.progress.step = 90; /* a run that went back is not ahead of its checkpoints */
    assert_int_equal(job_risk(&job, 0).lost_steps, 0);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_checkpoint_remembers_its_job),
        cmocka_unit_test(test_differences_are_named),
        cmocka_unit_test(test_no_more_layers_begin_frozen),
        cmocka_unit_test(test_omitted_keys_are_compared_both_ways),
        cmocka_unit_test(test_what_is_at_risk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
