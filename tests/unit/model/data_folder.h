/*
 * A folder with files of tokens, made for each test and removed after it, and data sets of what is
 * in it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/dataset.h"

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

static char root[64];

static inline int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/firn-dataset-XXXXXX");
    return mkdtemp(root) == NULL || chmod(root, 0755) < 0 ? -1 : 0;
}

static inline int remove_entry(const char *path, const struct stat *status, int type,
                               struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* One of a few static buffers, so that several paths can stand in one expression. */
static inline const char *at(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static inline void write_file(const char *name, const void *data, size_t size_bytes)
{
    FILE *file = fopen(at(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static inline void make_folder(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

static inline struct dataset_options options_of(const char *const *paths, unsigned path_count)
{
    return (struct dataset_options){.format = DATASET_BYTES,
                                    .paths = paths,
                                    .path_count = path_count,
                                    .context = 4,
                                    .vocab = 256,
                                    .seed = 7};
}

static inline struct dataset *open_dataset(const struct dataset_options *options)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    if (dataset_open(options, &dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

static inline void expect_failure(const struct dataset_options *options, int code, const char *text)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    assert_int_equal(dataset_open(options, &dataset, &error), code);
    assert_null(dataset);
    if (strstr(error.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}
