/* Where firnctl says that a checkpoint lies, from records that went through etcd's JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "ctl/checkpoint_where.h"

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
    assert_string_equal(where(0), "local"); /* what is there is another one of this step */
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
        cmocka_unit_test(test_only_stored),
        cmocka_unit_test(test_through_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
