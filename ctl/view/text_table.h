/* Format text in aligned columns. Cells are UTF-8 and may have terminal colours. */
#pragma once

#include "base/bytes.h"
#include "base/compiler.h"

#define TEXT_TABLE_COLUMNS_MAX 16

struct text_table {
    unsigned column_count;
    unsigned right; /* bit c: column c is right-aligned */
    char **cells;   /* row by row */
    size_t cell_count, capacity;
    bool failed; /* memory was short; printing returns the error */
};

/** text_table_init() - @heading: the first row, columns separated by '|'; "#word": right-aligned */
void text_table_init(struct text_table *table, const char *heading);
/** text_table_init_plain() - begin a table without headings */
void text_table_init_plain(struct text_table *table, unsigned column_count);
void text_table_done(struct text_table *table);

/** text_table_cell() - add the next cell, row by row; copied */
void text_table_cell(struct text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** text_table_append() - append all rows to @ret_text; the last column is not padded. Return: 0 or
 * -ENOMEM */
int text_table_append(const struct text_table *table, struct bytes *ret_text) CHECK_RESULT;
/** text_table_print() - print the table on standard output. Return: 0 or -ENOMEM */
int text_table_print(const struct text_table *table) CHECK_RESULT;
