/* A folder with files, made for each test and removed after it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

#define NOBODY 65534

static char root[64];

static inline int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/firn-folder-XXXXXX");
    return !mkdtemp(root) || chmod(root, 0755) < 0 ? -1 : 0;
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

/* Root may read everything, so it is somebody else while a file is to be unreadable. */
static inline void become_nobody(void)
{
    if (getuid() == 0)
        assert_int_equal(seteuid(NOBODY), 0);
}

static inline void become_oneself(void)
{
    if (getuid() != 0)
        return;
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0); /* or the leak sanitizer cannot look */
}
