#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "membership/json_stream.h"

/* Feeds @text in pieces of @piece bytes; what comes out, joined with '|'. Returns the last status.
 */
static int split(const char *text, size_t piece, size_t max, char *ret_objects)
{
    struct json_stream stream;
    int r = 0;
    json_stream_init(&stream, max);
    *ret_objects = '\0';
    for (size_t at = 0, length = strlen(text); at < length && r >= 0; at += piece) {
        assert_int_equal(json_stream_feed(&stream, text + at, MIN(piece, length - at)), 0);
        char *object;
        size_t size_bytes;
        while ((r = json_stream_next(&stream, &object, &size_bytes)) > 0) {
            assert_int_equal(size_bytes, strlen(object));
            strcat(strcat(ret_objects, object), "|");
            free(object);
        }
    }
    json_stream_done(&stream);
    return r;
}

static void test_objects_in_pieces_of_every_size(void **state)
{
    static const char text[] = "{\"a\":1}\n{\"b\":{\"c\":[{},{}]}}{\"d\":\"}{\\\"]\\\\\"}\r\n \t{}";
    static const char want[] = "{\"a\":1}|{\"b\":{\"c\":[{},{}]}}|{\"d\":\"}{\\\"]\\\\\"}|{}|";
    (void)state;
    for (size_t piece = 1; piece <= sizeof(text); piece++) {
        char objects[256];
        assert_int_equal(split(text, piece, 64, objects), 0);
        assert_string_equal(objects, want);
    }
}

static void test_incomplete_object_waits(void **state)
{
    char objects[256];
    (void)state;
    assert_int_equal(split("{\"a\":1}{\"b\":", 3, 64, objects), 0);
    assert_string_equal(objects, "{\"a\":1}|");
    assert_int_equal(split("{\"a\":\"}", 3, 64, objects), 0);
    assert_string_equal(objects, "");
}

static void test_garbage(void **state)
{
    static const char *const texts[] = {"x", "[]", "1", "\"{}\"", "}", "<html>", "{}x", "{},{}"};
    char objects[256];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_int_equal(split(texts[i], 1, 64, objects), -EPROTO);
}

static void test_zero_bytes(void **state)
{
    static const char *const before[] = {"", "{", "{\"", "{}"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(before); i++) {
        struct json_stream stream;
        char *object = NULL;
        size_t size_bytes;
        int r;
        json_stream_init(&stream, 64);
        assert_int_equal(json_stream_feed(&stream, before[i], strlen(before[i])), 0);
        assert_int_equal(json_stream_feed(&stream, "", 1), 0);
        while ((r = json_stream_next(&stream, &object, &size_bytes)) > 0)
            free(object);
        assert_int_equal(r, -EPROTO);
        json_stream_done(&stream);
    }
}

static void test_limit(void **state)
{
    char objects[256];
    (void)state;
    assert_int_equal(split("{\"a\":1}{\"a\":1}", 5, 7, objects), 0);
    assert_string_equal(objects, "{\"a\":1}|{\"a\":1}|");
    assert_int_equal(split("{\"a\":1}", 5, 6, objects), -EFBIG);
    assert_int_equal(split("{\"a\":\"xxxxxxxxxxxxxxx", 5, 6, objects), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_in_pieces_of_every_size),
        cmocka_unit_test(test_incomplete_object_waits),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
