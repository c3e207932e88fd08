/* Tests of merging, sealing, the JSON in both directions, and the seal of manifest.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/format/manifest.h"
#include "lib/checkpoint/sample.h"

/* A part with tensors at the given positions, all in one file. */
static struct manifest make_part(const char *file, const unsigned *orders, size_t count)
{
    struct manifest part = {.job = "job", .step = 7, .generation = 2};
    part.tensors = calloc(count + 1, sizeof(*part.tensors));
    part.files = calloc(1, sizeof(*part.files));
    part.file_count = 1;
    snprintf(part.files[0].name, sizeof(part.files[0].name), "%s", file);
    part.files[0].size_bytes = MANIFEST_CHUNK_BYTES + 4096;
    part.files[0].chunk_count = 2;
    part.files[0].chunk_crcs = calloc(2, sizeof(uint32_t));
    part.files[0].chunk_crcs[0] = 0xdeadbeef;
    for (size_t i = 0; i < count; i++) {
        struct manifest_tensor *tensor = &part.tensors[part.tensor_count++];
        snprintf(tensor->name, sizeof(tensor->name), "tensor-%u", orders[i]);
        snprintf(tensor->file, sizeof(tensor->file), "%s", file);
        tensor->order = orders[i];
        tensor->role = (enum manifest_role)(orders[i] % 3);
        tensor->offset = 4096 + 64 * i;
        tensor->size_bytes = 64;
        tensor->hash = (struct hash128){orders[i] + 1, 99};
    }
    return part;
}

static struct manifest make_sealed(const unsigned *first, size_t first_count,
                                   const unsigned *second, size_t second_count)
{
    struct error error = {0};
    struct manifest whole = {0};
    struct manifest a = make_part("model-00001-of-00002.safetensors", first, first_count);
    struct manifest b = make_part("model-00002-of-00002.safetensors", second, second_count);
    assert_int_equal(manifest_merge(&whole, &a, &error), 0);
    assert_int_equal(manifest_merge(&whole, &b, &error), 0);
    whole.spec = json_pack("{s:i}", "layers", 2);
    whole.state = json_pack("{s:{s:i, s:s}, s:i}", "freeze", "b", 1, "a", "x", "other", 5);
    assert_int_equal(manifest_seal(&whole, first_count + second_count, &error), 0);
    manifest_done(&a);
    manifest_done(&b);
    return whole;
}

static struct manifest make_usual(void)
{
    return make_sealed((unsigned[]){0, 1, 2}, 3, (unsigned[]){3, 4}, 2);
}

static void test_digest_is_the_same_on_every_layout(void **state)
{
    (void)state;
    struct manifest a = make_usual();
    struct manifest b = make_sealed((unsigned[]){4, 0}, 2, (unsigned[]){2, 1, 3}, 3);
    assert_true(hash128_equal(a.state_digest, b.state_digest));
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(b.tensors[i].order, i);

    /* but not when a value, a name, a role or the freeze state differs */
    struct error error = {0};
    struct hash128 before = b.state_digest;
    b.tensors[3].hash.low ^= 1;
    assert_int_equal(manifest_seal(&b, 5, &error), 0);
    assert_false(hash128_equal(before, b.state_digest));
    b.tensors[3].hash.low ^= 1;
    b.tensors[1].role = MANIFEST_PARAMETER;
    assert_int_equal(manifest_seal(&b, 5, &error), 0);
    assert_false(hash128_equal(before, b.state_digest));
    b.tensors[1].role = MANIFEST_FIRST_MOMENT;
    json_object_set_new(json_object_get(b.state, "freeze"), "b", json_integer(2));
    assert_int_equal(manifest_seal(&b, 5, &error), 0);
    assert_false(hash128_equal(before, b.state_digest));
    manifest_done(&a);
    manifest_done(&b);
}

static void test_seal_wants_every_position_once(void **state)
{
    (void)state;
    struct error error = {0};
    struct manifest hole = make_part("a", (unsigned[]){0, 2}, 2);
    assert_int_equal(manifest_seal(&hole, 2, &error), -EINVAL);
    assert_non_null(strstr(error.text, "position 1"));
    struct manifest twice = make_part("a", (unsigned[]){0, 1, 1}, 3);
    assert_int_equal(manifest_seal(&twice, 3, &error), -EINVAL);
    assert_non_null(strstr(error.text, "taken"));
    struct manifest few = make_part("a", (unsigned[]){0, 1}, 2);
    assert_int_equal(manifest_seal(&few, 3, &error), -EINVAL);
    manifest_done(&hole);
    manifest_done(&twice);
    manifest_done(&few);
}

static void test_merge_refuses_strangers(void **state)
{
    (void)state;
    struct error error = {0};
    struct manifest into = make_part("a", (unsigned[]){0}, 1);
    struct manifest same = make_part("a", (unsigned[]){1}, 1);
    assert_int_equal(manifest_merge(&into, &same, &error), -EINVAL);
    assert_non_null(strstr(error.text, "two parts"));
    struct manifest late = make_part("b", (unsigned[]){1}, 1);
    late.generation = 1;
    assert_int_equal(manifest_merge(&into, &late, &error), -EINVAL);
    late.generation = 2;
    late.step = 8;
    assert_int_equal(manifest_merge(&into, &late, &error), -EINVAL);
    late.step = 7;
    late.job[0] = 'x';
    assert_int_equal(manifest_merge(&into, &late, &error), -EINVAL);
    assert_int_equal(into.tensor_count, 1);
    assert_int_equal(into.file_count, 1);
    manifest_done(&into);
    manifest_done(&same);
    manifest_done(&late);
}

static void assert_same(const struct manifest *a, const struct manifest *b)
{
    json_t *left = manifest_encode(a), *right = manifest_encode(b);
    assert_non_null(left);
    assert_true(json_equal(left, right));
    json_decref(left);
    json_decref(right);
}

static void test_parts_and_whole_come_back(void **state)
{
    (void)state;
    struct error error = {0};
    struct manifest part = make_part("a", (unsigned[]){3, 1}, 2), decoded;
    json_t *tree = manifest_encode(&part);
    assert_false(json_has(tree, "state_digest"));
    assert_int_equal(manifest_decode(tree, "part", &decoded, &error), 0);
    assert_int_equal(decoded.files[0].chunk_crcs[0], 0xdeadbeef);
    assert_same(&part, &decoded);
    json_decref(tree);
    manifest_done(&decoded);
    manifest_done(&part);

    struct manifest whole = make_usual();
    struct bytes text = {0};
    assert_int_equal(manifest_text(&whole, &text), 0);
    assert_int_equal(manifest_parse((char *)text.data, text.size_bytes, "text", &decoded, &error),
                     0);
    assert_same(&whole, &decoded);
    assert_true(hash128_equal(whole.state_digest, decoded.state_digest));
    manifest_done(&decoded);
    manifest_done(&whole);
    bytes_done(&text);
}

static void test_every_flipped_bit_is_found(void **state)
{
    (void)state;
    struct manifest whole = make_usual(), decoded;
    struct bytes text = {0};
    assert_int_equal(manifest_text(&whole, &text), 0);
    for (size_t bit = 0; bit < text.size_bytes * 8; bit++) {
        struct error error = {0};
        text.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(manifest_parse((char *)text.data, text.size_bytes, "m", &decoded, &error),
                         -EBADMSG);
        text.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 0; size < text.size_bytes; size++) {
        struct error error = {0};
        assert_int_equal(manifest_parse((char *)text.data, size, "m", &decoded, &error), -EBADMSG);
    }
    manifest_done(&whole);
    bytes_done(&text);
}

/* Each edit makes one thing wrong in a sealed manifest; the checksum plays no part here. */
static void test_decode_names_the_cause(void **state)
{
    (void)state;
    static const struct {
        const char *array; /* NULL: the top */
        const char *key, *value, *cause;
    } edits[] = {
        {NULL, "format", "\"other\"", "format"},
        {NULL, "version", "2", "version"},
        {NULL, "step", "-1", "step"},
        {NULL, "job", "\"../x\"", "job"},
        {NULL, "chunk_bytes", "1024", "chunks"},
        {NULL, "tensors", "{}", "tensors"},
        {NULL, "state_digest", "\"00\"", "state_digest"},
        {NULL, "state_digest", "\"00000000000000000000000000000001\"", "does not follow"},
        {NULL, "spec", "[]", "spec"},
        {"files", "name", "\"../secret\"", "not a file name"},
        {"files", "name", "\".hidden\"", "not a file name"},
        {"files", "name", "\"model-00002-of-00002.safetensors\"", "twice"},
        {"files", "size_bytes", "1", "checksums"},
        {"files", "size_bytes", "9223372036854775807", "checksums"},
        {"files", "crc32c", "[\"0000000g\",\"00000000\"]", "malformed"},
        {"files", "crc32c", "[\"DEADBEEF\",\"00000000\"]", "malformed"},
        {"tensors", "file", "\"nowhere\"", "not listed"},
        {"tensors", "offset", "9223372036854775807", "behind the end"},
        {"tensors", "size_bytes", "9223372036854775804", "behind the end"},
        {"tensors", "size_bytes", "63", "multiple of 4"},
        {"tensors", "role", "\"momentum\"", "role"},
        {"tensors", "xxh3_128", "\"0\"", "hash"},
        {"tensors", "order", "4", "out of order"},
        {"tensors", "order", "65536", "order"},
        {"tensors", "name", "\"\"", "name"},
        {"tensors", "name", "\"renamed\"", "does not follow"},
    };
    struct manifest whole = make_usual(), decoded;
    for (size_t i = 0; i < ARRAY_COUNT(edits); i++) {
        struct error error = {0};
        json_t *tree = manifest_encode(&whole);
        json_t *target =
            !edits[i].array ? tree : json_array_get(json_object_get(tree, edits[i].array), 0);
        json_object_set_new(target, edits[i].key,
                            json_loads(edits[i].value, JSON_DECODE_ANY, NULL));
        assert_int_equal(manifest_decode(tree, "here", &decoded, &error), -EBADMSG);
        assert_int_equal(error.code, -EBADMSG);
        if (!strstr(error.text, edits[i].cause) || !strstr(error.text, "here"))
            fail_msg("%s: \"%s\" does not say \"%s\"", edits[i].key, error.text, edits[i].cause);
        json_object_del(target, edits[i].key);
        if (strcmp(edits[i].key, "state_digest") != 0)
            assert_int_equal(manifest_decode(tree, "here", &decoded, &error), -EBADMSG);
        json_decref(tree);
    }
    manifest_done(&whole);
}

static void test_load_checks_the_committed_hash(void **state)
{
    (void)state;
    char folder[64], path[128], sha256[65];
    struct error error = {0};
    struct manifest whole = make_usual(), loaded;
    struct bytes text = {0};
    sample_folder(folder);
    snprintf(path, sizeof(path), "%s/" MANIFEST_NAME, folder);
    assert_int_equal(manifest_load(folder, NULL, &loaded, &error), -ENOENT);
    assert_int_equal(manifest_text(&whole, &text), 0);
    FILE *file = fopen(path, "w");
    fwrite(text.data, 1, text.size_bytes, file);
    fclose(file);
    manifest_sha256(text.data, text.size_bytes, sha256);
    assert_int_equal(manifest_load(folder, sha256, &loaded, &error), 0);
    manifest_done(&loaded);
    sha256[5] = sha256[5] == '0' ? '1' : '0';
    assert_int_equal(manifest_load(folder, sha256, &loaded, &error), -EBADMSG);
    assert_non_null(strstr(error.text, path));
    manifest_sha256("abc", 3, sha256); /* FIPS 180-2's own example */
    assert_string_equal(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    manifest_done(&whole);
    bytes_done(&text);
    sample_remove(folder);
}

/* As many tensors and files as a manifest may have: each tensor names a file. */
static void test_a_manifest_at_its_limits_is_read(void **state)
{
    (void)state;
    AUTO_JSON json_t *files = json_array(), *tensors = json_array();
    struct manifest manifest;
    struct error error = {0};
    char name[MANIFEST_FILE_SIZE];
    for (int i = 0; i < MANIFEST_FILES_MAX; i++) {
        snprintf(name, sizeof(name), "model-%05d-of-16384.safetensors", i);
        json_array_append_new(files, json_pack("{s:s, s:i, s:[s]}", "name", name, "size_bytes", 64,
                                               "crc32c", "00000000"));
    }
    for (int i = 0; i < MANIFEST_TENSORS_MAX; i++) {
        snprintf(name, sizeof(name), "model-%05d-of-16384.safetensors",
                 (int)((unsigned)i * 7919u % MANIFEST_FILES_MAX));
        json_array_append_new(tensors, json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:s}", "name", "t",
                                                 "role", "parameter", "order", i, "file", name,
                                                 "offset", 0, "size_bytes", 64, "xxh3_128",
                                                 "0123456789abcdef0123456789abcdef"));
    }
    AUTO_JSON json_t *tree =
        json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:O, s:O}", "format", "firn-checkpoint",
                  "version", 1, "job", "j", "step", 1, "generation", 1, "chunk_bytes",
                  (int)MANIFEST_CHUNK_BYTES, "files", files, "tensors", tensors);
    assert_non_null(tree);
    if (manifest_decode(tree, "m", &manifest, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(manifest.tensor_count, MANIFEST_TENSORS_MAX);
    manifest_done(&manifest);
    json_object_set_new(json_array_get(tensors, MANIFEST_TENSORS_MAX - 1), "file",
                        json_string("model-16384-of-16384.safetensors"));
    assert_int_equal(manifest_decode(tree, "m", &manifest, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "which is not listed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest_is_the_same_on_every_layout),
        cmocka_unit_test(test_seal_wants_every_position_once),
        cmocka_unit_test(test_merge_refuses_strangers),
        cmocka_unit_test(test_parts_and_whole_come_back),
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_decode_names_the_cause),
        cmocka_unit_test(test_load_checks_the_committed_hash),
        cmocka_unit_test(test_a_manifest_at_its_limits_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
