/* Where firnctl says that a checkpoint lies, from records that went through etcd's JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "checkpoint/format/manifest.h"
#include "ctl/checkpoint/checkpoint_where.h"

static struct checkpoint_record records[2] = {{.step = 80}, {.step = 40}};
static struct object_record objects[3] = {{.step = 80}, {.step = 40}, {.step = 20}};
static const struct cluster_job job = {
    .checkpoints = records, .checkpoint_count = 2, .objects = objects, .object_count = 3};

static const char *where(unsigned index)
{
    static char text[CHECKPOINT_WHERE_SIZE];
    return checkpoint_where(&job, &records[index], text);
}

static void test_words(void **state)
{
    (void)state;
    strcpy(records[0].manifest_sha256, "a");
    assert_string_equal(where(0), "local"); /* the folder holds another checkpoint of this step */
    strcpy(objects[0].manifest_sha256, "a");
    assert_string_equal(where(0), "local, uploading 0 %");
    objects[0].size_bytes = 1000;
    objects[0].done_bytes = 437;
    assert_string_equal(where(0), "local, uploading 43 %");
    strcpy(objects[0].text, "no answer");
    assert_string_equal(where(0), "local, 43 % uploaded: no answer");
    objects[1].state = RECORD_COMPLETE;
    assert_string_equal(where(1), "local, object");
}

static void write_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A checkpoint of one file, as much of it as is looked at. */
static void make_checkpoint(const char *folder, struct checkpoint_record *record)
{
    struct bytes text = {0};
    char path[RECORD_PATH_SIZE + 32];
    uint32_t crc = 0;
    struct manifest_file file = {
        .name = "config.json", .size_bytes = 3, .chunk_crcs = &crc, .chunk_count = 1};
    struct manifest manifest = {.job = "job", .step = 80, .files = &file, .file_count = 1};

    manifest.spec = json_object();
    manifest.state = json_object();
    snprintf(record->path, sizeof(record->path), "%s/step-0000000080", folder);
    assert_int_equal(mkdir(record->path, 0700), 0);
    assert_int_equal(manifest_seal(&manifest, 0, NULL), 0);
    assert_int_equal(manifest_text(&manifest, &text), 0);
    manifest_sha256(text.data, text.size_bytes, record->manifest_sha256);
    snprintf(path, sizeof(path), "%s/manifest.json", record->path);
    write_file(path, (const char *)text.data, text.size_bytes);
    snprintf(path, sizeof(path), "%s/config.json", record->path);
    write_file(path, "{}\n", 3);
    bytes_done(&text);
    json_decref(manifest.spec);
    json_decref(manifest.state);
}

static void test_what_has_gone_is_not_local(void **state)
{
    (void)state;
    char folder[] = "/tmp/firn-where-XXXXXX", path[RECORD_PATH_SIZE + 32],
         text[CHECKPOINT_WHERE_SIZE];
    struct checkpoint_record record = {.step = 80};
    char shares[] = "a+b";

    assert_non_null(mkdtemp(folder));
    make_checkpoint(folder, &record);
    assert_string_equal(checkpoint_where(&job, &record, text), "local");
    snprintf(path, sizeof(path), "%s/config.json", record.path);
    assert_int_equal(truncate(path, 2), 0);
    assert_string_equal(checkpoint_where(&job, &record, text), "DAMAGED");
    assert_int_equal(unlink(path), 0);
    assert_string_equal(checkpoint_where(&job, &record, text), "DAMAGED");
    record.shares = shares;
    assert_string_equal(checkpoint_where(&job, &record, text), "local"); /* others have it */
    record.shares = NULL;
    record.manifest_sha256[0] ^= 1; /* another checkpoint of the step */
    assert_string_equal(checkpoint_where(&job, &record, text), "DAMAGED");
    snprintf(path, sizeof(path), "%s/manifest.json", record.path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(record.path), 0);
    assert_string_equal(checkpoint_where(&job, &record, text), "GONE");
    assert_int_equal(rmdir(folder), 0);
    assert_string_equal(checkpoint_where(&job, &record, text), "local"); /* nothing is known */
}

static void test_only_stored(void **state)
{
    (void)state;
    assert_null(checkpoint_only_stored(&job, 0)); /* step 20 is not complete */
    objects[2].state = RECORD_COMPLETE;
    assert_ptr_equal(checkpoint_only_stored(&job, 0), &objects[2]);
    assert_null(checkpoint_only_stored(&job, 1));
}

static void test_through_json(void **state)
{
    (void)state;
    struct object_record back, from = {.state = RECORD_FAILED,
                                       .step = 7,
                                       .size_bytes = 8,
                                       .done_bytes = 3,
                                       .unix_ns = 9,
                                       .manifest_sha256 = "ab",
                                       .place = "s3://b/k/",
                                       .node = "n",
                                       .text = "why"};
    struct error error = {0};
    AUTO_JSON json_t *tree = object_record_encode(&from);
    assert_int_equal(object_record_decode(tree, &back, &error), 0);
    assert_int_equal(back.state, RECORD_FAILED);
    assert_int_equal(back.step, 7);
    assert_int_equal(back.size_bytes, 8);
    assert_int_equal(back.done_bytes, 3);
    assert_string_equal(back.manifest_sha256, "ab");
    assert_string_equal(back.place, "s3://b/k/");
    assert_string_equal(back.node, "n");
    assert_string_equal(back.text, "why");
    json_object_set_new(tree, "state", json_string("lost"));
    assert_int_equal(object_record_decode(tree, &back, &error), -EINVAL);
    assert_non_null(strstr(error.text, "\"lost\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_what_has_gone_is_not_local),
        cmocka_unit_test(test_only_stored),
        cmocka_unit_test(test_through_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
