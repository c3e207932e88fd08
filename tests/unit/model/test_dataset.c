/* Data sets: which files, which tokens, which samples in which order, and every error. */
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/philox.h"
#include "model/data_files.h"
#include "model/dataset.h"
#include "model/token_row.h"

#define NOBODY 65534 /* the user of "unreadable" tests that run as root */

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/firn-dataset-XXXXXX");
    return mkdtemp(root) == NULL || chmod(root, 0755) < 0 ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* One of a few static buffers, so that several paths can stand in one expression. */
static const char *at(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t size_bytes)
{
    FILE *file = fopen(at(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

static struct dataset_options options_of(const char *const *paths, unsigned path_count)
{
    return (struct dataset_options){.format = DATASET_BYTES,
                                    .paths = paths,
                                    .path_count = path_count,
                                    .context = 4,
                                    .vocab = 256,
                                    .seed = 7};
}

static struct dataset *open_dataset(const struct dataset_options *options)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    if (dataset_open(options, &dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

static void expect_failure(const struct dataset_options *options, int code, const char *text)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    assert_int_equal(dataset_open(options, &dataset, &error), code);
    assert_null(dataset);
    if (strstr(error.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

/* All tokens that @path names, as text. */
static void expect_text(const char *path, const char *text)
{
    const struct token_row_options options = {.format = DATASET_BYTES,
                                              .paths = &path,
                                              .path_count = 1,
                                              .vocab = 256,
                                              .memory_max_bytes = TOKEN_ROW_MEMORY_MAX};
    struct token_row row;
    struct error error = {0};
    int32_t tokens[256];
    char read[256] = {0};

    if (token_row_open(&options, &row, &error) < 0)
        fail_msg("%s", error.text);
    assert_true(row.count < sizeof(read));
    token_row_read(&row, 0, (size_t)row.count, tokens);
    for (size_t i = 0; i < row.count; i++)
        read[i] = (char)tokens[i];
    token_row_done(&row);
    assert_string_equal(read, text);
}

/* ---- samples ---- */

static void test_samples_of_a_file(void **state)
{
    (void)state;
    write_text("a.txt", "abcdefghijklm"); /* 13 tokens: samples abcd|e, efgh|i, ijkl|m */
    const char *path = at("a.txt");
    struct dataset_options options = options_of(&path, 1);
    struct dataset *dataset = open_dataset(&options);
    int32_t tokens[4], targets[4];
    unsigned seen = 0;

    assert_int_equal(dataset_token_count(dataset), 13);
    assert_int_equal(dataset_train_count(dataset), 3);
    assert_int_equal(dataset_validation_count(dataset), 0);
    for (uint64_t i = 0; i < 3; i++) {
        dataset_train_batch(dataset, i, 1, tokens, targets);
        unsigned sample = ((unsigned)tokens[0] - 'a') / 4;
        for (unsigned k = 0; k < 4; k++) {
            assert_int_equal(tokens[k], 'a' + 4 * sample + k);
            assert_int_equal(targets[k], tokens[k] + 1);
        }
        seen |= 1u << sample;
    }
    assert_int_equal(seen, 7);
    dataset_close(dataset);
}

/* A file of @count uint16 tokens 0, 1, 2, ...: a token says which sample it is from. */
static void write_counting(const char *name, unsigned count)
{
    uint16_t tokens[4096];
    assert_true(count <= ARRAY_COUNT(tokens));
    for (unsigned i = 0; i < count; i++)
        tokens[i] = (uint16_t)i;
    write_file(name, tokens, count * sizeof(tokens[0]));
}

static void epoch_order(const struct dataset *dataset, uint64_t epoch, unsigned *ret_samples)
{
    uint64_t count = dataset_train_count(dataset);
    int32_t tokens[4], targets[4];
    for (uint64_t i = 0; i < count; i++) {
        dataset_train_batch(dataset, epoch * count + i, 1, tokens, targets);
        ret_samples[i] = (unsigned)tokens[0] / 4;
    }
}

static void test_each_epoch_visits_every_sample_once(void **state)
{
    (void)state;
    write_counting("count.bin", 4 * 1000 + 1);
    const char *path = at("count.bin");
    struct dataset_options options = options_of(&path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 4001;
    options.validation_share = 0.1;
    struct dataset *dataset = open_dataset(&options);
    unsigned orders[3][1000];

    assert_int_equal(dataset_train_count(dataset), 900);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        bool seen[1000] = {false};
        epoch_order(dataset, epoch, orders[epoch]);
        for (unsigned i = 0; i < 900; i++) {
            assert_true(orders[epoch][i] < 900); /* none of those held out */
            assert_false(seen[orders[epoch][i]]);
            seen[orders[epoch][i]] = true;
        }
    }
    assert_memory_not_equal(orders[0], orders[1], 900 * sizeof(unsigned));
    assert_memory_not_equal(orders[1], orders[2], 900 * sizeof(unsigned));
    dataset_close(dataset);

    options.seed++;
    dataset = open_dataset(&options);
    epoch_order(dataset, 0, orders[1]);
    assert_memory_not_equal(orders[0], orders[1], 900 * sizeof(unsigned));
    dataset_close(dataset);
}

static void test_a_batch_is_its_samples(void **state)
{
    (void)state;
    write_counting("count.bin", 4 * 10 + 1);
    const char *path = at("count.bin");
    struct dataset_options options = options_of(&path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 41;
    struct dataset *dataset = open_dataset(&options);
    int32_t tokens[6 * 4], targets[6 * 4], token[4], target[4];

    dataset_train_batch(dataset, 7, 6, tokens, targets); /* over the end of the first epoch */
    for (unsigned i = 0; i < 6; i++) {
        dataset_train_batch(dataset, 7 + i, 1, token, target);
        assert_memory_equal(tokens + 4 * i, token, sizeof(token));
        assert_memory_equal(targets + 4 * i, target, sizeof(target));
    }
    dataset_close(dataset);
}

static void test_validation_is_the_last_share(void **state)
{
    (void)state;
    write_counting("count.bin", 4 * 10 + 1);
    const char *path = at("count.bin");
    struct dataset_options options = options_of(&path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 41;
    options.validation_share = 0.2;
    struct dataset *dataset = open_dataset(&options);
    int32_t tokens[3 * 4], targets[3 * 4];

    assert_int_equal(dataset_train_count(dataset), 8);
    assert_int_equal(dataset_validation_count(dataset), 2);
    dataset_validation_batch(dataset, 3, 3, tokens, targets); /* samples 3, 4, 5 modulo 2 */
    assert_int_equal(tokens[0], 36);
    assert_int_equal(tokens[4], 32);
    assert_int_equal(tokens[8], 36);
    assert_int_equal(targets[11], 40);
    dataset_close(dataset);

    options.validation_share = 0.001; /* asked for: at least one */
    dataset = open_dataset(&options);
    assert_int_equal(dataset_validation_count(dataset), 1);
    dataset_close(dataset);
    options.validation_share = 0.9999; /* but training keeps one */
    dataset = open_dataset(&options);
    assert_int_equal(dataset_train_count(dataset), 1);
    dataset_close(dataset);
}

static void test_validation_of_its_own(void **state)
{
    (void)state;
    write_text("train.txt", "abcdefghi");
    write_text("other.txt", "ABCDEFGHIJKLM");
    const char *path = at("train.txt");
    struct dataset_options options = options_of(&path, 1);
    char other[256];
    snprintf(other, sizeof(other), "%s", at("other.txt"));
    options.validation_path = other;
    options.validation_share = 0.5; /* ignored */
    struct dataset *dataset = open_dataset(&options);
    int32_t tokens[4], targets[4];

    assert_int_equal(dataset_train_count(dataset), 2);
    assert_int_equal(dataset_validation_count(dataset), 3);
    assert_int_equal(dataset_token_count(dataset), 22);
    dataset_validation_batch(dataset, 2, 1, tokens, targets);
    assert_int_equal(tokens[0], 'I');
    assert_int_equal(targets[3], 'M');
    dataset_close(dataset);

    write_text("other.txt", "ABCD");
    expect_failure(&options, -ENODATA, "data.validation: 4 tokens");
    options.validation_path = at("absent.txt");
    expect_failure(&options, -ENOENT, "absent.txt");
}

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
    write_file(name, data, 1024 + 2 * count);
}

static void test_llmc(void **state)
{
    (void)state;
    write_llmc("a.bin", 20240520, 1, 3, 3);
    write_llmc("b.bin", 20240520, 1, 10, 10);
    const char *paths[] = {at("b.bin"), at("a.bin")}; /* sorted whatever the order here */
    struct dataset_options options = options_of(paths, 2);
    options.format = DATASET_LLMC;
    options.vocab = 10;
    options.context = 12;
    struct dataset *dataset = open_dataset(&options);
    int32_t tokens[12], targets[12];
    const int32_t want[] = {0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8};

    assert_int_equal(dataset_token_count(dataset), 13);
    dataset_train_batch(dataset, 0, 1, tokens, targets);
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
    const char *path = at("wide.bin");
    struct dataset_options options = options_of(&path, 1);
    int32_t tokens[5], targets[5];
    options.vocab = 128256;
    options.context = 5;

    memcpy(file + 256, words, sizeof(words));
    for (unsigned raw = 0; raw < 2; raw++) {
        write_file("wide.bin", raw ? words : file, raw ? sizeof(words) : sizeof(file));
        options.format = raw ? DATASET_UINT32 : DATASET_LLMC;
        struct dataset *dataset = open_dataset(&options);
        dataset_train_batch(dataset, 0, 1, tokens, targets);
        assert_memory_equal(tokens, want, sizeof(tokens));
        assert_memory_equal(targets, want + 1, sizeof(targets));
        dataset_close(dataset);
    }
    options.vocab = 128255;
    expect_failure(&options, -ERANGE, "token 128255 at position 0");
    write_file("wide.bin", words, 6);
    expect_failure(&options, -EINVAL, "no whole number of uint32");
}

static void test_token_files_are_alike(void **state)
{
    (void)state;
    static uint32_t wide[256 + 1] = {20240801, 7, 1};
    const char *paths[] = {at("b.bin"), at("a.bin")};
    struct dataset_options options = options_of(paths, 2);
    options.format = DATASET_LLMC;
    options.vocab = 128256;
    write_llmc("a.bin", 20240520, 1, 10, 10);
    write_file("b.bin", wide, sizeof(wide));
    expect_failure(&options, -EINVAL, "b.bin: its tokens have 4 bytes");
}

static void test_bad_llmc_headers(void **state)
{
    (void)state;
    const char *path = at("bad.bin");
    struct dataset_options options = options_of(&path, 1);
    options.format = DATASET_LLMC;

    write_llmc("bad.bin", 20240802, 1, 10, 10);
    expect_failure(&options, -EINVAL, "magic 20240802");
    write_llmc("bad.bin", 20240801, 1, 10, 10);
    expect_failure(&options, -EINVAL, "version 1, not 7");
    write_llmc("bad.bin", 20240520, 7, 10, 10);
    expect_failure(&options, -EINVAL, "version 7");
    write_llmc("bad.bin", 20240520, 1, 11, 10);
    expect_failure(&options, -EINVAL, "11 tokens");
    write_llmc("bad.bin", 20240520, 1, UINT32_MAX, 10);
    expect_failure(&options, -EINVAL, "4294967295 tokens");
    write_text("bad.bin", "short");
    expect_failure(&options, -EINVAL, "5 bytes, shorter than");
    write_text("bad.bin", "");
    expect_failure(&options, -EINVAL, "0 bytes, shorter than");
    options.format = DATASET_UINT16;
    write_text("bad.bin", "odd");
    expect_failure(&options, -EINVAL, "3 bytes");
}

static void test_tokens_outside_the_vocabulary(void **state)
{
    (void)state;
    write_text("a.txt", "aaaaaaaa");
    write_text("b.txt", "aaac");
    const char *paths[] = {at("a.txt"), at("b.txt")};
    struct dataset_options options = options_of(paths, 2);
    options.vocab = 'b';
    expect_failure(&options, -ERANGE, "b.txt: token 99 at position 3");
    options.vocab = 'c';
    expect_failure(&options, -ERANGE, "b.txt: token 99 at position 3");
    options.vocab = 'd';
    dataset_close(open_dataset(&options));

    const uint16_t words[] = {1, 2, 65535, 3, 4, 5};
    write_file("w.bin", words, sizeof(words));
    const char *word_path = at("w.bin");
    options = options_of(&word_path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 65535;
    expect_failure(&options, -ERANGE, "token 65535 at position 2");
    options.vocab = 65536;
    dataset_close(open_dataset(&options));
}

/* ---- which files ---- */

static void test_a_folder_is_sorted_and_deep(void **state)
{
    (void)state;
    make_folder("d");
    make_folder("d/b");
    make_folder("d/b/c");
    make_folder("d/.hidden");
    write_text("d/z", "5");
    write_text("d/b.x", "2"); /* '.' sorts before '/' */
    write_text("d/b/c/f", "4");
    write_text("d/b/A", "3");
    write_text("d/.hidden/f", "1");
    write_text("d/empty", "");
    expect_text(at("d"), "12345");
    expect_text(at("d///"), "12345");
}

static void test_links(void **state)
{
    (void)state;
    make_folder("d");
    make_folder("e");
    write_text("e/file", "E");
    write_text("d/file", "D");
    assert_int_equal(symlink("../e/file", at("d/link")), 0);   /* a file: followed */
    assert_int_equal(symlink("../e", at("d/folder")), 0);      /* a folder: not, in a folder */
    assert_int_equal(symlink(".", at("d/loop")), 0);           /* would never end */
    assert_int_equal(symlink("nowhere", at("d/dangling")), 0); /* no data */
    assert_int_equal(symlink("itself", at("d/itself")), 0);    /* no data either */
    assert_int_equal(mkfifo(at("d/pipe"), 0644), 0);           /* never opened */
    expect_text(at("d"), "DE");
    expect_text(at("d/folder"), "E"); /* named by the user: followed */
    expect_text(at("d/**"), "DE");
    expect_text(at("d/fold*/file"), "E"); /* named by a component: followed */

    const char *path = at("d/pipe");
    struct dataset_options options = options_of(&path, 1);
    expect_failure(&options, -EINVAL, "neither a file nor a folder");
    path = at("d/dangling");
    expect_failure(&options, -ENOENT, "dangling");
}

static void test_globs(void **state)
{
    (void)state;
    make_folder("g");
    make_folder("g/one");
    make_folder("g/one/two");
    make_folder("g/.git");
    write_text("g/a.c", "a");
    write_text("g/b.h", "b");
    write_text("g/.c.c", "h");
    write_text("g/.git/d.c", "g");
    write_text("g/one/c.c", "c");
    write_text("g/one/two/d.c", "d");
    write_text("g/one/two/e.h", "e");

    expect_text(at("g/*.c"), "a");
    expect_text(at("g/*"), "ab"); /* files, not folders */
    expect_text(at("g/?.[ch]"), "ab");
    expect_text(at("g/*/*.c"), "c");
    expect_text(at("g/**/*.c"), "acd");
    expect_text(at("g/**/**/*.c"), "acd");
    expect_text(at("g/**"), "abcde");
    expect_text(at("g/**/two/*"), "de");
    expect_text(at("g/**/one/**/*.h"), "e");
    expect_text(at("g/**/e.h"), "e");
    expect_text(at("g/.*.c"), "h");
    expect_text(at("g/one/../*.h"), "b");
    expect_text(at("/g//one/*.c"), "c");

    write_text("g/[x].c", "literal"); /* what exists is no pattern */
    expect_text(at("g/[x].c"), "literal");

    const char *path = at("g/*.none");
    struct dataset_options options = options_of(&path, 1);
    expect_failure(&options, -ENOENT, "no file matches");
    path = at("absent/**/*.c");
    expect_failure(&options, -ENOENT, "no file matches");
}

static void test_relative_globs(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof(before)));
    make_folder("r");
    write_text("r/x.c", "x");
    write_text("y.c", "y");
    assert_int_equal(chdir(root), 0);
    expect_text("*.c", "y");
    expect_text("**/*.c", "xy");
    expect_text("./r/*", "x");
    expect_text(".", "xy");
    assert_int_equal(chdir(before), 0);
}

static void test_too_many_components(void **state)
{
    (void)state;
    char pattern[512] = "";
    for (unsigned i = 0; i < 65; i++)
        strcat(pattern, "/*");
    const char *path = pattern;
    struct dataset_options options = options_of(&path, 1);
    expect_failure(&options, -EINVAL, "components");
}

static void test_a_file_named_twice_counts_once(void **state)
{
    (void)state;
    make_folder("d");
    write_text("d/a", "abc");
    write_text("d/b", "def");
    char names[3][256];
    snprintf(names[0], sizeof(names[0]), "%s", at("d/b"));
    snprintf(names[1], sizeof(names[1]), "%s", at("d"));
    snprintf(names[2], sizeof(names[2]), "%s", at("d/*"));
    const char *paths[] = {names[0], names[1], names[2]};
    struct dataset_options options = options_of(paths, 3);
    struct dataset *dataset = open_dataset(&options);
    assert_int_equal(dataset_token_count(dataset), 6);
    dataset_close(dataset);
}

/* ---- errors ---- */

static void test_too_little_data(void **state)
{
    (void)state;
    make_folder("empty");
    const char *path = at("empty");
    struct dataset_options options = options_of(&path, 1);
    expect_failure(&options, -ENODATA, "0 tokens are too few: one sample needs 5");
    write_text("empty/a", "abcd");
    expect_failure(&options, -ENODATA, "4 tokens are too few");
    write_text("empty/b", "e");
    dataset_close(open_dataset(&options));
    path = at("absent");
    expect_failure(&options, -ENOENT, "absent: no such file or folder");
}

static void test_bad_options(void **state)
{
    (void)state;
    write_text("a", "abcdefghi");
    const char *path = at("a");
    struct dataset_options options = options_of(&path, 1);
    options.validation_share = 1.0;
    expect_failure(&options, -EINVAL, "data.validation");
    options.validation_share = -0.1;
    expect_failure(&options, -EINVAL, "data.validation");
    options.validation_share = __builtin_nan("");
    expect_failure(&options, -EINVAL, "data.validation");
    options = options_of(&path, 0);
    expect_failure(&options, -EINVAL, "data.path");
    options = options_of(&path, 1);
    options.context = 0;
    expect_failure(&options, -EINVAL, "context");
}

/* Root may read everything, so it becomes somebody else for the attempt. */
static void expect_unreadable(const char *path, const char *text)
{
    struct dataset_options options = options_of(&path, 1);
    struct dataset *dataset = NULL;
    struct error error = {0};
    bool was_root = geteuid() == 0;

    if (was_root)
        assert_int_equal(seteuid(NOBODY), 0);
    int r = dataset_open(&options, &dataset, &error);
    if (was_root) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0); /* or the leak sanitizer cannot look */
    }
    assert_int_equal(r, -EACCES);
    if (strstr(error.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

static void test_unreadable_entries(void **state)
{
    (void)state;
    make_folder("d");
    make_folder("d/locked");
    write_text("d/open", "abcdefgh");
    write_text("d/locked/inside", "x");
    assert_int_equal(chmod(at("d/locked"), 0), 0);
    expect_unreadable(at("d"), "d/locked: Permission denied");
    expect_unreadable(at("d/**/inside"), "d/locked: Permission denied");
    expect_unreadable(at("d/locked/inside"), "inside: Permission denied");
    expect_unreadable(at("d/locked/*"), "d/locked/*: Permission denied");
    assert_int_equal(chmod(at("d/locked"), 0755), 0);
    assert_int_equal(chmod(at("d/locked/inside"), 0), 0);
    expect_unreadable(at("d"), "d/locked/inside: Permission denied");
}

/* ---- digest ---- */

static struct hash128 digest_of(const char *path, enum dataset_format format)
{
    struct dataset_options options = options_of(&path, 1);
    options.format = format;
    options.vocab = 65536;
    struct dataset *dataset = open_dataset(&options);
    struct hash128 digest = dataset_digest(dataset);
    dataset_close(dataset);
    return digest;
}

static void test_digest(void **state)
{
    (void)state;
    make_folder("one");
    make_folder("two");
    write_text("one/x", "abcdefghijkl");
    write_text("two/a", "abcd");
    write_text("two/b", "efghijkl");
    struct hash128 digest = digest_of(at("one"), DATASET_BYTES);
    assert_true(hash128_equal(digest, digest_of(at("two"), DATASET_BYTES)));
    assert_false(hash128_equal(digest, digest_of(at("one"), DATASET_UINT16)));

    char text[] = "abcdefghijkl";
    for (size_t i = 0; i < strlen(text); i++) {
        text[i] ^= 1;
        write_text("one/x", text);
        text[i] ^= 1;
        assert_false(hash128_equal(digest, digest_of(at("one"), DATASET_BYTES)));
    }
    write_text("one/x", "abcdefghijk");
    assert_false(hash128_equal(digest, digest_of(at("one"), DATASET_BYTES)));
}

/* ---- rows larger than memory ---- */

static void open_row(const char *path, enum dataset_format format, uint64_t memory_max_bytes,
                     uint64_t map_min_bytes, struct token_row *ret_row)
{
    const struct token_row_options options = {.format = format,
                                              .paths = &path,
                                              .path_count = 1,
                                              .vocab = 65536,
                                              .memory_max_bytes = memory_max_bytes,
                                              .map_min_bytes = map_min_bytes};
    struct error error = {0};
    if (token_row_open(&options, ret_row, &error) < 0)
        fail_msg("%s", error.text);
}

static void expect_same_rows(const char *path, enum dataset_format format, uint64_t map_min_bytes)
{
    struct token_row copied, mapped;
    open_row(path, format, TOKEN_ROW_MEMORY_MAX, map_min_bytes, &copied);
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

    make_folder("many");
    make_folder("many4");
    for (unsigned i = 0; i < 100; i++) {
        philox_block(key, i, 0, words);
        snprintf(name, sizeof(name), "many/%03u", i);
        write_file(name, words, i % 5 == 0 ? 0 : 2 * (words[0] % 8)); /* some empty */
        words[0] %= 65536;
        snprintf(name, sizeof(name), "many4/%03u", i);
        write_file(name, words, i % 5 == 0 ? 0 : 4);
    }
    for (unsigned map_min = 0; map_min <= 16; map_min += 8) { /* all mapped, some, none */
        expect_same_rows(at("many"), DATASET_BYTES, map_min);
        expect_same_rows(at("many"), DATASET_UINT16, map_min);
        expect_same_rows(at("many4"), DATASET_UINT32, map_min);
    }
    make_folder("llmc");
    write_llmc("llmc/a", 20240520, 1, 30, 30);
    write_llmc("llmc/b", 20240520, 1, 0, 0);
    write_llmc("llmc/c", 20240520, 1, 64, 64);
    expect_same_rows(at("llmc"), DATASET_LLMC, 0);
}

static void test_mapped_tokens_are_checked(void **state)
{
    (void)state;
    write_text("a.txt", "aaac");
    const char *path = at("a.txt");
    struct token_row_options options = {.paths = &path, .path_count = 1, .vocab = 'c'};
    struct token_row row;
    struct error error = {0};
    assert_int_equal(token_row_open(&options, &row, &error), -ERANGE);
    assert_non_null(strstr(error.text, "a.txt: token 99 at position 3"));
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        TEST(test_samples_of_a_file),
        TEST(test_each_epoch_visits_every_sample_once),
        TEST(test_a_batch_is_its_samples),
        TEST(test_validation_is_the_last_share),
        TEST(test_validation_of_its_own),
        TEST(test_llmc),
        TEST(test_wide_tokens),
        TEST(test_token_files_are_alike),
        TEST(test_bad_llmc_headers),
        TEST(test_tokens_outside_the_vocabulary),
        TEST(test_a_folder_is_sorted_and_deep),
        TEST(test_links),
        TEST(test_globs),
        TEST(test_relative_globs),
        TEST(test_too_many_components),
        TEST(test_a_file_named_twice_counts_once),
        TEST(test_too_little_data),
        TEST(test_bad_options),
        TEST(test_unreadable_entries),
        TEST(test_digest),
        TEST(test_mapped_equals_copied),
        TEST(test_mapped_tokens_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
