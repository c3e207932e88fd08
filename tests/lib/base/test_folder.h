/* A folder with files, made for each test and removed after it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, test_folder_make, test_folder_remove)

extern char test_folder_root[64];

/** test_folder_make() - make the folder */
int test_folder_make(void **state);

/** test_folder_remove() - remove the folder with its files */
int test_folder_remove(void **state);

/* Return a path in one of a few static buffers, so that one expression can have several paths. */
const char *test_folder_at(const char *name);

/** test_folder_write() - write a file of the folder */
void test_folder_write(const char *name, const void *data, size_t size_bytes);

/** test_folder_write_text() - write a file of the folder */
void test_folder_write_text(const char *name, const char *text);

/** test_folder_add() - make a folder in the folder */
void test_folder_add(const char *name);

/* Stop being root, which may read everything, while a file must be unreadable. */
void test_folder_become_nobody(void);

/** test_folder_become_oneself() - undo test_folder_become_nobody() */
void test_folder_become_oneself(void);
