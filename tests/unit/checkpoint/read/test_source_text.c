/* The place of a checkpoint as one process hands it to another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/read/source_text.h"
#include "lib/checkpoint/file_server.h"

static const char sha256[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static struct checkpoint_remote *make(const struct file_server *server)
{
    struct checkpoint_remote_options options = {
        .job = "sample", .nodes = &server->node, .node_count = 1, .timeout_ns = NS_PER_SECOND};
    struct checkpoint_remote *remote = NULL;
    memcpy(options.key, server->key, sizeof(options.key));
    assert_int_equal(checkpoint_remote_new(&options, &remote, NULL), 0);
    return remote;
}

/* A reader with the text can read everything that the writer of the text could read. */
static void test_what_is_handed_over_works(void **state)
{
    static struct file_server server;
    char folder[] = "/tmp/firn-source-XXXXXX", path[128], data[8] = "", found[65];
    struct bytes text = {0};
    struct checkpoint_remote *remote, *back = NULL;
    struct error error = {0};
    size_t size = 0;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/step", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/step/config.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("hello", file);
    fclose(file);
    file_server_start(&server, "a", folder);
    remote = make(&server);
    assert_int_equal(source_text_encode(remote, sha256, &text), 0);
    if (source_text_decode((const char *)text.data, text.size_bytes, &back, found, &error) != 0)
        fail_msg("%s", error.text);
    assert_string_equal(found, sha256);
    assert_int_equal(checkpoint_remote_count(back), 1);
    assert_int_equal(
        checkpoint_remote_read(back, "a", "step", "config.json", 0, data, 5, &size, NULL), 0);
    assert_string_equal(data, "hello");
    checkpoint_remote_free(back);
    checkpoint_remote_free(remote);
    file_server_stop(&server);
    bytes_done(&text);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    rmdir(folder);
}

/* A text cut off or changed anywhere is refused or has a meaning; it never harms. */
static void test_other_texts_are_refused(void **state)
{
    static struct file_server server = {.node = {.name = "a", .http = "127.0.0.1:1"}};
    struct bytes text = {0};
    struct checkpoint_remote *remote = make(&server), *back = NULL;
    char found[65];
    struct error error = {0};
    (void)state;
    assert_int_equal(source_text_encode(remote, sha256, &text), 0);
    for (size_t size = 0; size < text.size_bytes - 1; size++)
        assert_int_equal(source_text_decode((const char *)text.data, size, &back, found, &error),
                         -EINVAL);
    for (size_t i = 0; i < text.size_bytes; i++) {
        text.data[i] ^= 0x11;
        if (source_text_decode((const char *)text.data, text.size_bytes, &back, found, NULL) == 0)
            checkpoint_remote_free(back);
        text.data[i] ^= 0x11;
    }
    bytes_done(&text);
    checkpoint_remote_free(remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_handed_over_works),
        cmocka_unit_test(test_other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
