/*
 * Features of the terminal: its width, colours, and a picture of a few lines that is redrawn in
 * place while finished lines scroll away above it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/** terminal_is_live() - return whether standard output is a terminal that can move its cursor */
bool terminal_is_live(void);
/** terminal_columns() - return the columns of standard output; 80 if it is not a terminal */
unsigned terminal_columns(void);
/** terminal_color() - return an escape sequence; "" if colours are off (NO_COLOR, a pipe) */
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

/** terminal_width_of() - return the columns that UTF-8 @text takes; escape sequences take none */
unsigned terminal_width_of(const char *text);
/** terminal_fit() - return the length of the longest prefix of @text (up to its end or a newline)
 * that fits into @columns */
size_t terminal_fit(const char *text, unsigned columns);

/** terminal_break() - do the same, but break a line that continues at the last space that fits */
size_t terminal_break(const char *text, unsigned columns);

/** terminal_take_keys() - get keys one by one, without echo, until the program ends; no effect if
 * standard input is not a terminal, or another program has it */
void terminal_take_keys(void);
/** terminal_asked_to_leave() - return whether q was pressed since the last call; does not wait */
bool terminal_asked_to_leave(void);

/* A picture at the end of the output. Zeroed: nothing is drawn. */
struct terminal_picture {
    unsigned line_count;
};

/** terminal_erase() - remove the picture, so that lines can be printed where it was */
void terminal_erase(struct terminal_picture *picture);
/** terminal_draw() - replace the picture by @text (lines; long lines continue below, indented) */
void terminal_draw(struct terminal_picture *picture, const char *text);
