/* The pass over all tokens of large data: its digest, its first bad token, and files that end
 * early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/base/test_folder.h"
#include "model/data/token_scan.h"

#define MIB    (1u << 20)
#define ROUNDS 20 /* the threads meet in another order each time */

static uint8_t content[6 * MIB];

/* A row that is mapped, and whose tokens are checked by the scan. */
struct opened {
    struct file_list files;
    struct token_row_options options;
    struct token_row row;
};

static void open_row(const char *path, enum dataset_format format, struct opened *opened)
{
    struct error error = {0};

    *opened = (struct opened){0};
    opened->options = (struct token_row_options){
        .format = format, .files = &opened->files, .vocab = 250, .check_later = true};
    opened->options.map_min_bytes = MIB;
    if (file_list_find("data.path", &path, 1, &opened->files, &error) < 0 ||
        token_row_open(&opened->options, &opened->row, &error) < 0)
        fail_msg("%s", error.text);
}

static void close_row(struct opened *opened)
{
    token_row_done(&opened->row);
    file_list_done(&opened->files);
}

static int scan(struct opened *opened, struct hash128 *ret_digest, struct error *error)
{
    const struct dataset_listener listener = {0};
    struct token_scan_progress progress = {.listener = &listener};
    struct hash_stream *stream = hash_stream_new();

    assert_non_null(stream);
    int status = token_scan_run(&opened->row, &opened->options, &progress, stream, error);
    *ret_digest = hash_stream_result(stream);
    hash_stream_free(stream);
    return status;
}

/* Bytes that follow no pattern of pieces. */
static void fill_content(void)
{
    uint32_t word = 1;

    for (size_t i = 0; i < sizeof(content); i++) {
        word = word * 1664525u + 1013904223u;
        content[i] = (uint8_t)((word >> 24) % 250);
    }
}

static void test_digest_is_that_of_the_tokens_in_order(void **state)
{
    static const size_t sizes[] = {MIB + 1, 0, 7, 2 * MIB, 0, MIB - 1, MIB};
    size_t total = 0;
    char name[16];

    (void)state;
    test_folder_add("many");
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        snprintf(name, sizeof(name), "many/%zu", i);
        test_folder_write(name, content + total, sizes[i]);
        total += sizes[i];
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct opened opened;
        struct hash128 digest;
        struct error error = {0};
        open_row(test_folder_at("many"), DATASET_BYTES, &opened);
        assert_int_equal(scan(&opened, &digest, &error), 0);
        assert_true(hash128_equal(digest, hash_xxh3(content, total)));
        close_row(&opened);
    }
}

static void test_header_is_no_part_of_the_digest(void **state)
{
    static uint32_t file[256 + MIB] = {20240801, 7, MIB};
    struct opened opened;
    struct hash128 digest;
    struct error error = {0};

    (void)state;
    for (size_t i = 0; i < MIB; i++)
        file[256 + i] = (uint32_t)(i % 250);
    test_folder_write("wide.bin", file, sizeof(file));
    open_row(test_folder_at("wide.bin"), DATASET_LLMC, &opened);
    assert_int_equal(scan(&opened, &digest, &error), 0);
    assert_true(hash128_equal(digest, hash_xxh3(file + 256, MIB * sizeof(uint32_t))));
    close_row(&opened);
}

static void test_first_bad_token_is_named(void **state)
{
    static const size_t bad[] = {5 * MIB + 1, 3 * MIB + 17, 2 * MIB + 9};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char words[128]; /* the bad tokens of the turns before are behind this one */
        content[bad[i]] = 251;
        test_folder_write("tokens", content, sizeof(content));
        snprintf(words, sizeof(words), "tokens: token 251 at position %zu is outside", bad[i]);
        for (unsigned round = 0; round < ROUNDS; round++) {
            struct opened opened;
            struct hash128 digest;
            struct error error = {0};
            open_row(test_folder_at("tokens"), DATASET_BYTES, &opened);
            assert_int_equal(scan(&opened, &digest, &error), -ERANGE);
            if (!strstr(error.text, words))
                fail_msg("\"%s\" does not say \"%s\"", error.text, words);
            assert_non_null(strstr(error.text, "are model.vocab and data.format those of"));
            close_row(&opened);
        }
    }
    fill_content();
}

/* An error that names the file, and not the signal that a mapping would get. */
static void test_file_that_becomes_shorter(void **state)
{
    struct opened opened;
    struct hash128 digest;
    struct error error = {0};

    (void)state;
    test_folder_write("tokens", content, sizeof(content));
    open_row(test_folder_at("tokens"), DATASET_BYTES, &opened);
    assert_int_equal(truncate(test_folder_at("tokens"), 2 * MIB + 5), 0);
    assert_int_equal(scan(&opened, &digest, &error), -EIO);
    assert_non_null(strstr(error.text, "tokens: became shorter while it was read"));
    assert_int_equal(unlink(test_folder_at("tokens")), 0);
    assert_int_equal(scan(&opened, &digest, &error), -ENOENT);
    assert_non_null(strstr(error.text, "tokens: No such file"));
    close_row(&opened);
}

int main(void)
{
    fill_content();
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_digest_is_that_of_the_tokens_in_order),
        IN_FOLDER(test_header_is_no_part_of_the_digest),
        IN_FOLDER(test_first_bad_token_is_named),
        IN_FOLDER(test_file_that_becomes_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
