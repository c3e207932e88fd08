/* Tests of the requests for files of checkpoints that are granted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/http/checkpoint_files.h"

#define IN_FORCE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NEXT     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BEFORE   "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define OTHER    "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"

static struct job job;
static struct plan plan, prepared;
static uint8_t key_used[CHECKPOINT_KEY_SIZE]; /* of the last proof that was valid */

static int prepare(void **state)
{
    (void)state;
    memset(&job, 0, sizeof(job));
    strcpy(job.name, "demo");
    strcpy(job.folders.checkpoint_dir, "/data/demo");
    strcpy(plan.links.key, IN_FORCE);
    strcpy(prepared.links.key, NEXT);
    strcpy(job.plans.before.key, BEFORE);
    job.plans.plan = &plan;
    job.plans.prepared = &prepared;
    return 0;
}

/* Request @rest with a proof under @key for @folder and @file. */
static int ask(const char *rest, const char *key, const char *folder, const char *file,
               uint64_t size_bytes, char ret_path[256])
{
    uint8_t bytes[PLAN_KEY_SIZE];
    char proof[CHECKPOINT_PROOF_SIZE];
    const struct checkpoint_range range = {"demo", folder, file, 8, size_bytes};
    struct checkpoint_request request = {.rest = rest, .offset = 8, .size_bytes = size_bytes};
    struct error error = {0};
    if (key) {
        assert_true(plan_key_bytes(key, bytes));
        checkpoint_proof(bytes, &range, proof);
        request.proof = proof;
    }
    int status = checkpoint_files_allow(&job, &request, ret_path, 256, key_used, &error);
    assert_int_equal(status, error.code);
    return status;
}

static void test_keys_of_generations_that_may_ask(void **state)
{
    static const char *const folder = "step-0000000040", *const file = "manifest.json";
    const char *rest = "step-0000000040/manifest.json";
    char path[256] = "";
    (void)state;
    assert_int_equal(ask(rest, IN_FORCE, folder, file, 100, path), 0);
    assert_string_equal(path, "/data/demo/step-0000000040/manifest.json");
    assert_int_equal(ask(rest, NEXT, folder, file, 100, path), 0);
    assert_int_equal(key_used[0], 0xbb);
    assert_int_equal(ask(rest, BEFORE, folder, file, 100, path), 0);
    assert_int_equal(key_used[0], 0xcc);
    assert_int_equal(ask(rest, OTHER, folder, file, 100, path), -EACCES);
    assert_int_equal(ask(rest, NULL, folder, file, 100, path), -EACCES);
    job.plans.before.key[0] = '\0';
    job.plans.plan = job.plans.prepared = NULL;
    assert_int_equal(ask(rest, IN_FORCE, folder, file, 100, path), -EACCES);
    assert_int_equal(ask(rest, BEFORE, folder, file, 100, path), -EACCES);
}

static void test_a_proof_is_for_one_range(void **state)
{
    char path[256];
    (void)state;
    assert_int_equal(
        ask("step-0000000040/manifest.json", IN_FORCE, "step-0000000040", "config.json", 100, path),
        -EACCES);
    assert_int_equal(ask("step-0000000040/manifest.json", IN_FORCE, "step-0000000041",
                         "manifest.json", 100, path),
                     -EACCES);
}

static void test_kept_outputs_are_given_too(void **state)
{
    char path[256];
    (void)state;
    strcpy(job.folders.dir, "/data/jobs/demo");
    assert_int_equal(ask("frozen/outputs-01", IN_FORCE, "frozen", "outputs-01", 100, path), 0);
    assert_string_equal(path, "/data/jobs/demo/frozen/outputs-01");
    assert_int_equal(ask("frozen/outputs-01", OTHER, "frozen", "outputs-01", 100, path), -EACCES);
    assert_int_equal(ask("frozen/../spec.json", IN_FORCE, "frozen", "../spec.json", 100, path),
                     -ENOENT);
}

static void test_only_files_of_checkpoints(void **state)
{
    static const char *const refused[] = {
        "",
        "/",
        "step-0000000040",
        "step-0000000040/",
        "step-0000000040/../spec.json",
        "step-0000000040/..",
        "step-0000000040/.hidden",
        "step-0000000040/a/b",
        "step-0000000040.gone/manifest.json",
        "step-0000000040.damaged/manifest.json",
        "../job/manifest.json",
        "step-00000000400000000000000000000000000000000000000000000000000000000/manifest.json",
        "anything/manifest.json",
    };
    char path[256];
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(refused); i++)
        assert_int_equal(ask(refused[i], IN_FORCE, "x", "y", 100, path), -ENOENT);
    assert_int_equal(ask("step-0000000040.g7.part/part-00001.json", IN_FORCE,
                         "step-0000000040.g7.part", "part-00001.json", 100, path),
                     0);
}

static void test_ranges_are_bounded(void **state)
{
    char path[256];
    (void)state;
    assert_int_equal(
        ask("step-0000000040/x", IN_FORCE, "step-0000000040", "x", CHECKPOINT_REMOTE_MAX, path), 0);
    assert_int_equal(
        ask("step-0000000040/x", IN_FORCE, "step-0000000040", "x", CHECKPOINT_REMOTE_MAX + 1, path),
        -EINVAL);
    assert_int_equal(ask("step-0000000040/x", IN_FORCE, "step-0000000040", "x", 0, path), -EINVAL);
}

/* In any request, a granted path lies two names below the job's folder. */
static void test_noise(void **state)
{
    static const char letters[] = "step-0123456789./g%~\\part";
    uint64_t random = 1;
    (void)state;
    for (unsigned round = 0; round < 100000; round++) {
        char rest[48] = "step-0000000040";
        char path[256] = "";
        struct error error = {0};
        struct checkpoint_request request = {.rest = rest, .size_bytes = 1, .proof = "0"};
        for (unsigned i = 0; i < 12; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            rest[10 + (random >> 33) % 24] = letters[(random >> 45) % (sizeof(letters) - 1)];
        }
        int status = checkpoint_files_allow(&job, &request, path, sizeof(path), key_used, &error);
        assert_true(status == -ENOENT || status == -EACCES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_keys_of_generations_that_may_ask, prepare),
        cmocka_unit_test_setup(test_a_proof_is_for_one_range, prepare),
        cmocka_unit_test_setup(test_kept_outputs_are_given_too, prepare),
        cmocka_unit_test_setup(test_only_files_of_checkpoints, prepare),
        cmocka_unit_test_setup(test_ranges_are_bounded, prepare),
        cmocka_unit_test_setup(test_noise, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
