#include "lib/base/test_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"

#define NOBODY 65534

char test_folder_root[64];

int test_folder_make(void **state)
{
    (void)state;
    strcpy(test_folder_root, "/tmp/firn-folder-XXXXXX");
    return !mkdtemp(test_folder_root) || chmod(test_folder_root, 0755) < 0 ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

int test_folder_remove(void **state)
{
    (void)state;
    return nftw(test_folder_root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_folder_at(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];
    snprintf(path, sizeof(paths[0]), "%s/%s", test_folder_root, name);
    return path;
}

void test_folder_write(const char *name, const void *data, size_t size_bytes)
{
    FILE *file = fopen(test_folder_at(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

void test_folder_write_text(const char *name, const char *text)
{
    test_folder_write(name, text, strlen(text));
}

void test_folder_add(const char *name)
{
    assert_int_equal(mkdir(test_folder_at(name), 0755), 0);
}

void test_folder_become_nobody(void)
{
    if (getuid() == 0)
        assert_int_equal(seteuid(NOBODY), 0);
}

void test_folder_become_oneself(void)
{
    if (getuid() != 0)
        return;
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0); /* otherwise the leak sanitizer cannot look */
}
