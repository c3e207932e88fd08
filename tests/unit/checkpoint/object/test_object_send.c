/*
 * Send a checkpoint to an object store and fetch it back: with every operation failing once, cut
 * off at every operation and resumed, damaged on either side. The store checks after each operation
 * that every checkpoint with a manifest is complete (fake_store.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/object/object_fetch.h"
#include "checkpoint/object/object_send.h"
#include "lib/checkpoint/fake_store.h"
#include "lib/checkpoint/sample.h"

#define PREFIX     "team/a"
#define PART_BYTES MANIFEST_CHUNK_BYTES
#define ROWS       1300 /* of 1,000: one parameter and its moments make files of several parts */

static char folder[64], to[128];
static char sha256[10][65]; /* of the manifests of steps 1, 2, ... */
static uint64_t total_bytes;
static unsigned pauses;

/* Save step @step, whose last unit is large. */
static void save(uint64_t step)
{
    const char *why;
    const struct io *io = io_probe(&why);
    struct error error = {0};
    struct sample sample;
    char path[FOLDER_PATH_SIZE];
    struct checkpoint_writer *writer = sample_writer(io, 0);
    sample_init(&sample, step);
    for (unsigned i = sample.count - 3; i < sample.count; i++) {
        struct checkpoint_tensor *tensor = &sample.tensors[i];
        tensor->shape[0] = ROWS;
        tensor->shape[1] = 1000;
        tensor->count = ROWS * 1000;
        free(sample.values[i]);
        sample.values[i] = malloc(tensor->count * sizeof(float));
        for (size_t k = 0; k < tensor->count; k++)
            sample.values[i][k] = sample_value(step, i, k);
        tensor->data = sample.values[i];
    }
    assert_int_equal(sample_save_values(writer, io, folder, step, 2, &sample, &error), 0);
    sample_done(&sample);
    checkpoint_writer_stop(writer);
    checkpoint_path(folder, step, path);
    sample_manifest_sha256(path, sha256[step]);
}

static void measure(uint64_t step)
{
    char path[FOLDER_PATH_SIZE];
    struct manifest manifest;
    checkpoint_path(folder, step, path);
    assert_int_equal(manifest_load(path, sha256[step], &manifest, NULL), 0);
    total_bytes = 0;
    for (size_t i = 0; i < manifest.file_count; i++)
        total_bytes += manifest.files[i].size_bytes;
    manifest_done(&manifest);
}

static int set_up_group(void **state)
{
    (void)state;
    sample_frozen = 2;
    sample_folder(folder);
    for (uint64_t step = 1; step <= 3; step++)
        save(step);
    measure(1);
    snprintf(to, sizeof(to), "%s/back", folder);
    return 0;
}

static int tear_down_group(void **state)
{
    (void)state;
    fake_store_reset();
    sample_remove(folder);
    sample_frozen = 0;
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    fake_store_reset();
    pauses = 0;
    return 0;
}

static int count_pause(void *context, uint64_t wait_ns)
{
    (void)context;
    assert_true(wait_ns >= OBJECT_WAIT_MIN_NS && wait_ns <= OBJECT_WAIT_MAX_NS);
    pauses++;
    return 0;
}

static int send_step(uint64_t step, struct error *error)
{
    char path[FOLDER_PATH_SIZE];
    checkpoint_path(folder, step, path);
    const struct object_send_options options = {.folder = path,
                                                .manifest_sha256 = sha256[step],
                                                .prefix = PREFIX,
                                                .part_bytes = PART_BYTES,
                                                .watch = {.pause = count_pause}};
    return object_send(&fake_store, &options, error);
}

static bool sets_aside; /* an existing folder */

static int fetch_step(uint64_t step, bool any, struct error *error)
{
    struct object_checkpoint found;
    const struct object_fetch_options options = {.prefix = PREFIX,
                                                 .job = "sample",
                                                 .step = step,
                                                 .any_up_to = any,
                                                 .manifest_sha256 = any ? NULL : sha256[step],
                                                 .to = to,
                                                 .sets_aside = sets_aside,
                                                 .watch = {.pause = count_pause}};
    return object_fetch(&fake_store, &options, &found, error);
}

/* Check that both folders have the same files, to the byte. */
static void assert_same_folder(const char *left, const char *right)
{
    struct manifest manifest;
    assert_int_equal(manifest_load(left, NULL, &manifest, NULL), 0);
    for (size_t i = 0; i <= manifest.file_count; i++) {
        const char *name = i < manifest.file_count ? manifest.files[i].name : MANIFEST_NAME;
        char path[FOLDER_FILE_SIZE];
        struct bytes a = {0}, b = {0};
        folder_file_path(left, name, path);
        assert_int_equal(file_read(path, 1u << 30, &a, NULL), 0);
        folder_file_path(right, name, path);
        assert_int_equal(file_read(path, 1u << 30, &b, NULL), 0);
        assert_int_equal(a.size_bytes, b.size_bytes);
        assert_int_equal(memcmp(a.data, b.data, a.size_bytes), 0);
        bytes_done(&a);
        bytes_done(&b);
    }
    manifest_done(&manifest);
}

static void assert_comes_back(uint64_t step)
{
    struct error error = {0};
    char path[FOLDER_PATH_SIZE];
    checkpoint_path(folder, step, path);
    if (fetch_step(step, false, &error) != 0)
        fail_msg("%s", error.text);
    assert_same_folder(path, to);
    sample_remove(to);
}

static void test_goes_and_comes_back(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(send_step(1, &error), 0);
    assert_int_equal(fake_store_check(), 1);
    assert_true(fake_objects.sent_bytes > total_bytes); /* and the manifest */
    assert_comes_back(1);
    uint64_t sent = fake_objects.sent_bytes;
    assert_int_equal(send_step(1, &error), 0); /* nothing is left to do */
    assert_int_equal(fake_objects.sent_bytes, sent);
}

static void test_store_without_checksums(void **state)
{
    (void)state;
    fake_objects.checksums = false;
    assert_int_equal(send_step(1, NULL), 0);
    assert_comes_back(1);
}

static uint64_t count_operations(void)
{
    assert_int_equal(send_step(1, NULL), 0);
    uint64_t operations = fake_objects.operations;
    assert_true(operations > 10);
    return operations;
}

static void test_each_operation_fails_once(void **state)
{
    (void)state;
    uint64_t operations = count_operations();
    for (uint64_t k = 0; k < operations; k++)
        for (enum fake_fault fault = FAKE_REFUSED; fault <= FAKE_ANSWER_LOST; fault++) {
            struct error error = {0};
            fake_store_reset();
            fake_objects.fail_from = k;
            fake_objects.fail_count = 1;
            fake_objects.fault = fault;
            if (send_step(1, &error) != 0)
                fail_msg("operation %d: %s", (int)k, error.text);
            assert_int_equal(fake_store_check(), 1);
        }
    assert_comes_back(1);
}

static void test_goes_on_after_a_crash_anywhere(void **state)
{
    (void)state;
    uint64_t operations = count_operations();
    uint64_t whole = fake_objects.sent_bytes;
    for (uint64_t k = 0; k < operations; k++) {
        fake_store_reset();
        fake_objects.fail_from = k;
        fake_objects.fail_count = FAKE_NEVER;
        fake_objects.fault = FAKE_ANSWER_LOST;
        fake_objects.status = -ECANCELED;
        assert_int_equal(send_step(1, NULL), -ECANCELED);
        fake_objects.fail_from = FAKE_NEVER;
        assert_int_equal(send_step(1, NULL), 0);
        assert_int_equal(fake_store_check(), 1);
        /* Data that had arrived were not sent again, except a part that the crash itself may have
         * hidden. */
        assert_true(fake_objects.sent_bytes <= whole + PART_BYTES);
    }
    assert_comes_back(1);
}

static void test_outage(void **state)
{
    (void)state;
    struct error error = {0};
    fake_objects.fail_from = 9;
    fake_objects.fail_count = OBJECT_TRIES_MAX - 1;
    assert_int_equal(send_step(1, &error), 0); /* short enough to be waited for */
    assert_int_equal(pauses, OBJECT_TRIES_MAX - 1);
    fake_store_reset();
    fake_objects.fail_from = 9;
    fake_objects.fail_count = FAKE_NEVER;
    assert_int_equal(send_step(1, &error), -EAGAIN);
    assert_non_null(strstr(error.text, "told to fail"));
    assert_int_equal(fake_store_check(), 0);
    fake_objects.fail_from = FAKE_NEVER;
    assert_int_equal(send_step(1, &error), 0);
    assert_comes_back(1);
}

static void test_refusal_is_final(void **state)
{
    (void)state;
    fake_objects.fail_from = 4;
    fake_objects.fail_count = 1;
    fake_objects.status = -EACCES;
    assert_int_equal(send_step(1, NULL), -EACCES);
    assert_int_equal(pauses, 0);
}

/* Swept uploads begin again, but not forever. */
static void test_swept_uploads(void **state)
{
    (void)state;
    uint64_t operations = count_operations();
    for (uint64_t k = 0; k < operations; k++) {
        fake_store_reset();
        fake_objects.fail_from = k;
        fake_objects.fail_count = FAKE_NEVER;
        fake_objects.status = -ECANCELED;
        assert_int_equal(send_step(1, NULL), -ECANCELED);
        fake_objects.fail_from = FAKE_NEVER;
        for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
            fake_store_drop_upload(&fake_objects.uploads[i]);
        assert_int_equal(send_step(1, NULL), 0);
    }
    fake_store_reset();
    fake_objects.fail_from = 6;
    fake_objects.fail_count = FAKE_NEVER;
    fake_objects.status = -ENOENT;
    assert_int_equal(send_step(1, NULL), -ENOENT);
}

static void flip(uint8_t *data, size_t at)
{
    data[at] ^= 0x10;
}

static void test_damage_on_disk_is_not_sent(void **state)
{
    (void)state;
    struct error error = {0};
    char path[FOLDER_PATH_SIZE], name[FOLDER_FILE_SIZE];
    uint8_t byte;
    checkpoint_path(folder, 1, path);
    folder_file_path(path, "optimizer-00001-of-00002.safetensors", name);
    int file = open(name, O_RDWR);
    off_t at = (off_t)MANIFEST_CHUNK_BYTES + 5;
    assert_int_equal(pread(file, &byte, 1, at), 1);
    flip(&byte, 0);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    assert_int_equal(send_step(1, &error), -EIO);
    assert_non_null(strstr(error.text, "optimizer-00001-of-00002.safetensors: chunk 1"));
    assert_int_equal(fake_store_check(), 0);
    flip(&byte, 0);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
    assert_int_equal(send_step(1, &error), 0);
    strcpy(sha256[0], sha256[1]);
    flip((uint8_t *)sha256[1], 3); /* not the manifest that was committed */
    assert_int_equal(send_step(1, &error), -EIO);
    strcpy(sha256[1], sha256[0]);
}

static void test_damage_in_the_store_is_found(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(send_step(1, &error), 0);
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_object *object = &fake_objects.objects[i];
        for (size_t at = 0; at < object->size; at += object->size / 3 + 1) {
            flip(object->data, at);
            error_clear(&error);
            assert_int_equal(fetch_step(1, false, &error), -EBADMSG);
            assert_non_null(strstr(error.text, strrchr(object->key, '/') + 1));
            assert_int_not_equal(access(to, F_OK), 0);
            flip(object->data, at);
        }
    }
    fake_objects.got_bytes = 0;
    assert_comes_back(1); /* resumes from the existing files */
    assert_true(fake_objects.got_bytes < total_bytes);
}

static void test_fetch_with_each_operation_failing(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(send_step(1, &error), 0);
    fake_objects.operations = 0;
    assert_comes_back(1);
    uint64_t operations = fake_objects.operations;
    for (uint64_t k = 1; k < operations; k++) { /* 0 looks for it, and says when it cannot */
        fake_objects.operations = 0;
        fake_objects.fail_from = k;
        fake_objects.fail_count = 1;
        assert_comes_back(1);
        fake_objects.operations = 0;
        fake_objects.fail_count = FAKE_NEVER;
        fake_objects.status = -ECANCELED;
        assert_int_equal(fetch_step(1, false, &error), -ECANCELED);
        assert_int_not_equal(access(to, F_OK), 0);
        fake_objects.status = -EAGAIN;
    }
    fake_objects.fail_from = FAKE_NEVER;
    assert_comes_back(1);
}

static void test_newest_is_fetched(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(fetch_step(9, true, &error), -ENOENT);
    assert_int_equal(send_step(1, &error), 0);
    assert_int_equal(send_step(2, &error), 0);
    fake_objects.fail_from = fake_objects.operations + 8;
    fake_objects.fail_count = FAKE_NEVER;
    fake_objects.status = -EACCES;
    assert_int_equal(send_step(3, &error), -EACCES); /* incomplete */
    fake_objects.fail_from = FAKE_NEVER;
    assert_int_equal(fetch_step(9, true, &error), 0);
    char path[FOLDER_PATH_SIZE];
    checkpoint_path(folder, 2, path);
    assert_same_folder(path, to);
    assert_int_equal(fetch_step(1, false, &error), -EEXIST);
    sample_remove(to);
    assert_int_equal(fetch_step(3, false, &error), -ENOENT);
}

/* A folder that could not be read for a while may be good: it stays until its replacement is here.
 */
static void test_a_folder_is_set_aside_at_the_end(void **state)
{
    (void)state;
    struct error error = {0};
    char damaged[FOLDER_PATH_SIZE + 16], note[FOLDER_FILE_SIZE];
    assert_int_equal(send_step(1, &error), 0);
    assert_int_equal(mkdir(to, 0755), 0);
    snprintf(damaged, sizeof(damaged), "%s.damaged", to);
    folder_file_path(to, "note", note);
    assert_int_equal(file_replace(note, "x", 1, 0644, &error), 0);
    sets_aside = true;
    assert_int_equal(fetch_step(3, false, &error), -ENOENT);
    assert_int_equal(access(note, F_OK), 0);
    assert_int_equal(access(damaged, F_OK), -1);
    assert_int_equal(fetch_step(1, false, &error), 0);
    sets_aside = false;
    assert_int_equal(access(note, F_OK), -1);
    assert_int_equal(access(damaged, F_OK), 0);
    char path[FOLDER_PATH_SIZE];
    checkpoint_path(folder, 1, path);
    assert_same_folder(path, to);
    sample_remove(damaged);
    sample_remove(to);
}

static void test_frozen_units_are_copied(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(send_step(1, &error), 0);
    assert_int_equal(fake_objects.copies, 0);
    assert_int_equal(send_step(2, &error), 0);
    assert_int_equal(fake_objects.copies, 2);
    assert_comes_back(2);
    /* If the store refuses, they are sent. */
    uint64_t operations = fake_objects.operations;
    assert_int_equal(send_step(3, &error), 0);
    operations = fake_objects.operations - operations;
    for (uint64_t k = 0; k < operations; k++) {
        fake_store_reset();
        assert_int_equal(send_step(2, &error), 0);
        fake_objects.fail_from = fake_objects.operations + k;
        fake_objects.fail_count = 1;
        fake_objects.status = -EINVAL;
        int status = send_step(3, &error);
        assert_true(status == 0 || status == -EINVAL);
        fake_objects.fail_from = FAKE_NEVER;
        assert_int_equal(send_step(3, &error), 0);
        assert_int_equal(fake_store_check(), 2);
    }
}

static int expire(uint64_t step, unsigned keep, uint64_t *ret_oldest, struct error *error)
{
    return object_expire(&fake_store, PREFIX, "sample", step, sha256[step], keep, ret_oldest,
                         error);
}

static void test_retention(void **state)
{
    (void)state;
    struct error error = {0};
    uint64_t oldest = 0;
    for (uint64_t step = 1; step <= 3; step++)
        assert_int_equal(send_step(step, &error), 0);
    assert_int_equal(expire(3, 2, &oldest, &error), 0);
    assert_int_equal(oldest, 2);
    assert_int_equal(fake_store_check(), 2);
    assert_int_equal(fetch_step(1, false, &error), -ENOENT);
    /* A run that went back leaves later steps alone, and needs the step that it has just made. */
    assert_int_equal(send_step(1, &error), 0);
    assert_int_equal(expire(1, 1, &oldest, &error), 0);
    assert_int_equal(fake_store_check(), 3);
    assert_int_equal(expire(3, 1, &oldest, &error), 0);
    assert_int_equal(fake_store_check(), 1);
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        assert_true(fake_objects.objects[i].key[0] == '\0' ||
                    strstr(fake_objects.objects[i].key, "step-0000000003-"));
}

static void test_retention_cut_off_anywhere(void **state)
{
    (void)state;
    struct error error = {0};
    uint64_t oldest, k = 0;
    for (int status = -1; status != 0; k++) {
        fake_store_reset();
        for (uint64_t step = 1; step <= 2; step++)
            assert_int_equal(send_step(step, &error), 0);
        fake_objects.fail_from = fake_objects.operations + k;
        fake_objects.fail_count = FAKE_NEVER;
        status = expire(2, 1, &oldest, &error); /* the store checks itself after each removal */
        fake_objects.fail_from = FAKE_NEVER;
        assert_int_equal(expire(2, 1, &oldest, &error), 0);
        assert_int_equal(fake_store_check(), 1);
    }
    assert_true(k > 5);
}

static void test_leftovers_go(void **state)
{
    (void)state;
    struct error error = {0};
    uint64_t oldest;
    fake_objects.fail_from = 8;
    fake_objects.fail_count = FAKE_NEVER;
    fake_objects.status = -ECANCELED;
    assert_int_equal(send_step(1, &error), -ECANCELED); /* never to be gone on with */
    fake_objects.fail_from = FAKE_NEVER;
    assert_int_equal(send_step(2, &error), 0);
    assert_int_equal(expire(2, 3, &oldest, &error), 0);
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        assert_string_equal(fake_objects.uploads[i].name, "");
        assert_true(fake_objects.objects[i].key[0] == '\0' ||
                    strstr(fake_objects.objects[i].key, "step-0000000002-"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_goes_and_comes_back, set_up),
        cmocka_unit_test_setup(test_store_without_checksums, set_up),
        cmocka_unit_test_setup(test_each_operation_fails_once, set_up),
        cmocka_unit_test_setup(test_goes_on_after_a_crash_anywhere, set_up),
        cmocka_unit_test_setup(test_outage, set_up),
        cmocka_unit_test_setup(test_refusal_is_final, set_up),
        cmocka_unit_test_setup(test_swept_uploads, set_up),
        cmocka_unit_test_setup(test_damage_on_disk_is_not_sent, set_up),
        cmocka_unit_test_setup(test_damage_in_the_store_is_found, set_up),
        cmocka_unit_test_setup(test_fetch_with_each_operation_failing, set_up),
        cmocka_unit_test_setup(test_newest_is_fetched, set_up),
        cmocka_unit_test_setup(test_a_folder_is_set_aside_at_the_end, set_up),
        cmocka_unit_test_setup(test_frozen_units_are_copied, set_up),
        cmocka_unit_test_setup(test_retention, set_up),
        cmocka_unit_test_setup(test_retention_cut_off_anywhere, set_up),
        cmocka_unit_test_setup(test_leftovers_go, set_up),
    };
    return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
