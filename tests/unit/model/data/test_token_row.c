/* Rows of tokens: every format that files may have, and rows larger than memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/model/data_folder.h"

#include "base/compiler.h"
#include "base/philox.h"
#include "lib/base/test_folder.h"
#include "model/data/token_row.h"

/* ---- formats ---- */

static void write_llmc(const char *name, uint32_t magic, uint32_t version, uint32_t says,
                       unsigned count)
{
    static uint8_t data[1024 + 2 * 64];
    uint32_t head[3] = {magic, version, says};
    memset(data, 0, sizeof(data));
    memcpy(data, head, sizeof(head));
    for (unsigned i = 0; i < count; i++)
        data[1024 + 2 * i] = (uint8_t)i;
    test_folder_write(name, data, 1024 + 2 * count);
}

static void test_llmc(void **state)
{
    (void)state;
    write_llmc("a.bin", 20240520, 1, 3, 3);
    write_llmc("b.bin", 20240520, 1, 10, 10);
    const char *paths[] = {test_folder_at("b.bin"),
                           test_folder_at("a.bin")}; /* sorted, for any order here */
    struct dataset_options options = data_folder_options(paths, 2);
    options.format = DATASET_LLMC;
    options.vocab = 10;
    options.context = 12;
    struct dataset *dataset = data_folder_open(&options);
    int32_t tokens[12], targets[12];
    const int32_t want[] = {0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8};

    assert_int_equal(dataset_token_count(dataset), 13);
    data_folder_train(dataset, 0, 1, tokens, targets);
    assert_memory_equal(tokens, want, sizeof(want));
    assert_int_equal(targets[11], 9);
    dataset_close(dataset);
}

/* Llama 3's tokens, which do not fit into 16 bits: with a header, and raw. */
static void test_wide_tokens(void **state)
{
    (void)state;
    static uint32_t file[256 + 6] = {20240801, 7, 6};
    const uint32_t words[6] = {128255, 0, 65536, 65535, 7, 128000};
    const int32_t want[6] = {128255, 0, 65536, 65535, 7, 128000};
    const char *path = test_folder_at("wide.bin");
    struct dataset_options options = data_folder_options(&path, 1);
    int32_t tokens[5], targets[5];
    options.vocab = 128256;
    options.context = 5;

    memcpy(file + 256, words, sizeof(words));
    for (unsigned raw = 0; raw < 2; raw++) {
        test_folder_write("wide.bin", raw ? words : file, raw ? sizeof(words) : sizeof(file));
        options.format = raw ? DATASET_UINT32 : DATASET_LLMC;
        struct dataset *dataset = data_folder_open(&options);
        data_folder_train(dataset, 0, 1, tokens, targets);
        assert_memory_equal(tokens, want, sizeof(tokens));
        assert_memory_equal(targets, want + 1, sizeof(targets));
        dataset_close(dataset);
    }
    options.vocab = 128255;
    data_folder_expect_failure(&options, -ERANGE, "token 128255 at position 0");
    test_folder_write("wide.bin", words, 6);
    data_folder_expect_failure(&options, -EINVAL, "no whole number of uint32");
}

static void test_token_files_are_alike(void **state)
{
    (void)state;
    static uint32_t wide[256 + 1] = {20240801, 7, 1};
    const char *paths[] = {test_folder_at("b.bin"), test_folder_at("a.bin")};
    struct dataset_options options = data_folder_options(paths, 2);
    options.format = DATASET_LLMC;
    options.vocab = 128256;
    write_llmc("a.bin", 20240520, 1, 10, 10);
    test_folder_write("b.bin", wide, sizeof(wide));
    data_folder_expect_failure(&options, -EINVAL, "b.bin: its tokens have 4 bytes");
}

static void test_bad_llmc_headers(void **state)
{
    (void)state;
    const char *path = test_folder_at("bad.bin");
    struct dataset_options options = data_folder_options(&path, 1);
    options.format = DATASET_LLMC;

    write_llmc("bad.bin", 20240802, 1, 10, 10);
    data_folder_expect_failure(&options, -EINVAL, "magic 20240802");
    write_llmc("bad.bin", 20240801, 1, 10, 10);
    data_folder_expect_failure(&options, -EINVAL, "version 1, not 7");
    write_llmc("bad.bin", 20240520, 7, 10, 10);
    data_folder_expect_failure(&options, -EINVAL, "version 7");
    write_llmc("bad.bin", 20240520, 1, 11, 10);
    data_folder_expect_failure(&options, -EINVAL, "11 tokens");
    write_llmc("bad.bin", 20240520, 1, UINT32_MAX, 10);
    data_folder_expect_failure(&options, -EINVAL, "4294967295 tokens");
    test_folder_write_text("bad.bin", "short");
    data_folder_expect_failure(&options, -EINVAL, "5 bytes, shorter than");
    test_folder_write_text("bad.bin", "");
    data_folder_expect_failure(&options, -EINVAL, "0 bytes, shorter than");
    options.format = DATASET_UINT16;
    test_folder_write_text("bad.bin", "odd");
    data_folder_expect_failure(&options, -EINVAL, "3 bytes");
}

static void test_tokens_outside_the_vocabulary(void **state)
{
    (void)state;
    test_folder_write_text("a.txt", "aaaaaaaa");
    test_folder_write_text("b.txt", "aaac");
    const char *paths[] = {test_folder_at("a.txt"), test_folder_at("b.txt")};
    struct dataset_options options = data_folder_options(paths, 2);
    options.vocab = 'b';
    data_folder_expect_failure(&options, -ERANGE, "b.txt: token 99 at position 3");
    options.vocab = 'c';
    data_folder_expect_failure(&options, -ERANGE, "b.txt: token 99 at position 3");
    options.vocab = 'd';
    dataset_close(data_folder_open(&options));

    const uint16_t words[] = {1, 2, 65535, 3, 4, 5};
    test_folder_write("w.bin", words, sizeof(words));
    const char *word_path = test_folder_at("w.bin");
    options = data_folder_options(&word_path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 65535;
    data_folder_expect_failure(&options, -ERANGE, "token 65535 at position 2");
    options.vocab = 65536;
    dataset_close(data_folder_open(&options));
}

static void test_an_unreadable_file(void **state)
{
    (void)state;
    test_folder_write_text("open", "abcdefgh");
    test_folder_write_text("locked", "x");
    assert_int_equal(chmod(test_folder_at("locked"), 0), 0);
    const char *path = test_folder_at("*");
    const struct dataset_options options = data_folder_options(&path, 1);
    test_folder_become_nobody();
    data_folder_expect_failure(&options, -EACCES, "locked: Permission denied");
    test_folder_become_oneself();
}

/* ---- rows larger than memory ---- */

static void open_row(const char *path, enum dataset_format format, uint64_t memory_max_bytes,
                     uint64_t map_min_bytes, struct token_row *ret_row)
{
    CLEANUP(file_list_done) struct file_list files = {0};
    const struct token_row_options options = {.format = format,
                                              .files = &files,
                                              .vocab = 65536,
                                              .memory_max_bytes = memory_max_bytes,
                                              .map_min_bytes = map_min_bytes};
    struct error error = {0};
    if (file_list_find("data.path", &path, 1, &files, &error) < 0 ||
        token_row_open(&options, ret_row, &error) < 0)
        fail_msg("%s", error.text);
}

/* Check that spans equal the tokens that are read one by one, and that the lengths of files add up.
 */
static void expect_spans(const struct token_row *row, const int32_t *tokens)
{
    uint64_t first = 0, of_files = 0, here;

    for (; first < row->count; first += here) {
        const uint8_t *span = token_row_span(row, first, &here);
        assert_true(here > 0 && here <= row->count - first);
        for (uint64_t i = 0; i < here; i++)
            assert_memory_equal(span + i * row->token_bytes, &tokens[first + i], row->token_bytes);
    }
    for (size_t i = 0; i < row->file_count; i++)
        of_files += row->file_counts[i];
    assert_int_equal(first, row->count);
    assert_int_equal(of_files, row->count);
}

static void expect_same_rows(const char *path, enum dataset_format format, uint64_t map_min_bytes)
{
    struct token_row copied, mapped;
    open_row(path, format, DATASET_MEMORY_MAX, map_min_bytes, &copied);
    open_row(path, format, 0, map_min_bytes, &mapped);
    size_t count = (size_t)copied.count;
    int32_t *left = calloc(count, sizeof(*left)), *right = calloc(count, sizeof(*right));

    assert_true(mapped.extent_count > 1 && copied.extent_count == 1);
    assert_int_equal(mapped.count, count);
    token_row_read(&copied, 0, count, left);
    for (size_t first = 0; first < count; first++) {
        size_t length = MIN((size_t)17, count - first); /* over several of the files */
        token_row_read(&mapped, first, length, right);
        assert_memory_equal(left + first, right, length * sizeof(*right));
    }
    token_row_read(&mapped, count, 0, right); /* nothing, at the end */
    expect_spans(&copied, left);
    expect_spans(&mapped, left);
    assert_int_equal(copied.file_count, mapped.file_count);
    assert_memory_equal(copied.file_counts, mapped.file_counts,
                        copied.file_count * sizeof(*copied.file_counts));
    free(left);
    free(right);
    token_row_done(&copied);
    token_row_done(&mapped);
}

static void test_mapped_equals_copied(void **state)
{
    (void)state;
    const struct philox_key key = philox_key_make(3, 1);
    uint32_t words[4];
    char name[32];

    test_folder_add("many");
    test_folder_add("many4");
    for (unsigned i = 0; i < 100; i++) {
        philox_block(key, i, 0, words);
        snprintf(name, sizeof(name), "many/%03u", i);
        test_folder_write(name, words, i % 5 == 0 ? 0 : 2 * (words[0] % 8)); /* some empty */
        words[0] %= 65536;
        snprintf(name, sizeof(name), "many4/%03u", i);
        test_folder_write(name, words, i % 5 == 0 ? 0 : 4);
    }
    for (unsigned map_min = 0; map_min <= 16; map_min += 8) { /* all mapped, some, none */
        expect_same_rows(test_folder_at("many"), DATASET_BYTES, map_min);
        expect_same_rows(test_folder_at("many"), DATASET_UINT16, map_min);
        expect_same_rows(test_folder_at("many4"), DATASET_UINT32, map_min);
    }
    test_folder_add("llmc");
    write_llmc("llmc/a", 20240520, 1, 30, 30);
    write_llmc("llmc/b", 20240520, 1, 0, 0);
    write_llmc("llmc/c", 20240520, 1, 64, 64);
    expect_same_rows(test_folder_at("llmc"), DATASET_LLMC, 0);
}

static void test_mapped_tokens_are_checked(void **state)
{
    (void)state;
    test_folder_write_text("a.txt", "aaac");
    const char *path = test_folder_at("a.txt");
    CLEANUP(file_list_done) struct file_list files = {0};
    struct token_row_options options = {.files = &files, .vocab = 'c'};
    struct token_row row;
    struct error error = {0};
    assert_int_equal(file_list_find("data.path", &path, 1, &files, &error), 0);
    assert_int_equal(token_row_open(&options, &row, &error), -ERANGE);
    assert_non_null(strstr(error.text, "a.txt: token 99 at position 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_llmc),
        IN_FOLDER(test_wide_tokens),
        IN_FOLDER(test_token_files_are_alike),
        IN_FOLDER(test_bad_llmc_headers),
        IN_FOLDER(test_tokens_outside_the_vocabulary),
        IN_FOLDER(test_an_unreadable_file),
        IN_FOLDER(test_mapped_equals_copied),
        IN_FOLDER(test_mapped_tokens_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
