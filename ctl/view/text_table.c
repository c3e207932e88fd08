#include "ctl/view/text_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/view/terminal.h"

#define GAP "  "

static void add_cell(struct text_table *table, char *text)
{
    if (table->cell_count == table->capacity && text) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = realloc(table->cells, capacity * sizeof(*cells));
        if (cells) {
            table->cells = cells;
            table->capacity = capacity;
        }
    }
    if (!text || table->cell_count == table->capacity) {
        table->failed = true;
        free(text);
        return;
    }
    table->cells[table->cell_count++] = text;
}

void text_table_init(struct text_table *table, const char *heading)
{
    *table = (struct text_table){0};
    for (const char *at = heading; table->column_count < TEXT_TABLE_COLUMNS_MAX;) {
        size_t length = strcspn(at, "|");
        bool right = *at == '#';
        table->right |= right ? 1u << table->column_count : 0;
        table->column_count++;
        add_cell(table, strndup(at + right, length - right));
        if (!at[length])
            break;
        at += length + 1;
    }
}

void text_table_init_plain(struct text_table *table, unsigned column_count)
{
    *table = (struct text_table){.column_count = column_count};
}

void text_table_done(struct text_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct text_table){0};
}

void text_table_cell(struct text_table *table, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    add_cell(table, text);
}

static void measure(const struct text_table *table, unsigned widths[TEXT_TABLE_COLUMNS_MAX])
{
    memset(widths, 0, TEXT_TABLE_COLUMNS_MAX * sizeof(*widths));
    for (size_t i = 0; i < table->cell_count; i++) {
        unsigned *width = &widths[i % table->column_count];
        *width = MAX(*width, terminal_width_of(table->cells[i]));
    }
}

static int append_cell(const struct text_table *table, size_t index, unsigned width,
                       struct bytes *into)
{
    unsigned column = (unsigned)(index % table->column_count);
    const char *text = table->cells[index];
    int padding = (int)(width - terminal_width_of(text));
    bool right = table->right >> column & 1;

    if (column + 1 < table->column_count)
        return bytes_append_format(into, "%*s%s%*s" GAP, right ? padding : 0, "", text,
                                   right ? 0 : padding, "");
    if (!text[0])
        while (into->size_bytes && into->data[into->size_bytes - 1] == ' ')
            into->size_bytes--;
    return bytes_append_format(into, "%*s%s\n", right ? padding : 0, "", text);
}

int text_table_append(const struct text_table *table, struct bytes *ret_text)
{
    unsigned widths[TEXT_TABLE_COLUMNS_MAX];
    int status = table->failed ? -ENOMEM : 0;

    measure(table, widths);
    for (size_t i = 0; i < table->cell_count && !status; i++)
        status = append_cell(table, i, widths[i % table->column_count], ret_text);
    return status;
}

int text_table_print(const struct text_table *table)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = text_table_append(table, &text);

    if (!status)
        fwrite(text.data, 1, text.size_bytes, stdout);
    return status;
}
