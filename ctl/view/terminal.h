/*
 * Features of the terminal: its width, colours, and a picture of a few lines that is redrawn in
 * place while finished lines scroll away above it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/** terminal_is_live() - standard output is a terminal that can move its cursor */
bool terminal_is_live(void);
/** terminal_columns() - of standard output; 80 when it is not a terminal */
unsigned terminal_columns(void);
/** terminal_color() - an escape sequence, or "" where colours are not wanted (NO_COLOR, a pipe) */
enum terminal_color {
    TERMINAL_PLAIN,
    TERMINAL_BOLD,
    TERMINAL_DIM,
    TERMINAL_RED,
    TERMINAL_GREEN,
    TERMINAL_YELLOW,
    TERMINAL_CYAN
};
const char *terminal_color(enum terminal_color color);

/** terminal_width_of() - columns that UTF-8 @text takes; escape sequences take none */
unsigned terminal_width_of(const char *text);
/** terminal_fit() - the length of the longest prefix of @text (up to its end or a newline) that
 * fits into @columns */
size_t terminal_fit(const char *text, unsigned columns);

/** terminal_break() - the same, up to the last space that fits where the line goes on after it */
size_t terminal_break(const char *text, unsigned columns);

/** terminal_take_keys() - keys arrive one by one, without an echo, until the program ends; nothing
 * where standard input is no terminal, or another program's */
void terminal_take_keys(void);
/** terminal_asked_to_leave() - q was pressed since the last call; does not wait */
bool terminal_asked_to_leave(void);

/* A picture at the end of the output. Zeroed: nothing is drawn. */
struct terminal_picture {
    unsigned line_count;
};

/** terminal_erase() - remove the picture, so that lines can be printed where it was */
void terminal_erase(struct terminal_picture *picture);
/** terminal_draw() - replace the picture by @text (lines; long ones go on below, indented) */
void terminal_draw(struct terminal_picture *picture, const char *text);
