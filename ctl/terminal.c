#include "ctl/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 80
#define ROWS_DEFAULT    24

bool terminal_is_live(void)
{
    const char *kind = getenv("TERM");

    return isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb");
}

static struct winsize window(void)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0 || size.ws_row == 0)
        size = (struct winsize){.ws_col = COLUMNS_DEFAULT, .ws_row = ROWS_DEFAULT};
    return size;
}

unsigned terminal_columns(void)
{
    return window().ws_col;
}

const char *terminal_color(enum terminal_color color)
{
    static const char *const sequences[] = {
        [TERMINAL_PLAIN] = "\033[0m", [TERMINAL_BOLD] = "\033[1m",   [TERMINAL_DIM] = "\033[2m",
        [TERMINAL_RED] = "\033[31m",  [TERMINAL_GREEN] = "\033[32m", [TERMINAL_YELLOW] = "\033[33m",
        [TERMINAL_CYAN] = "\033[36m",
    };
    const char *refused = getenv("NO_COLOR");

    return terminal_is_live() && !(refused && refused[0]) ? sequences[color] : "";
}

/* Length of an escape sequence "ESC [ ... letter" at @text; 0: there is none. */
static size_t escape_length(const char *text)
{
    if (text[0] != '\033' || text[1] != '[')
        return 0;
    size_t length = 2 + strspn(text + 2, "0123456789;");
    return text[length] ? length + 1 : length;
}

/* Every character of ours is one column wide: letters, bars, braille, arrows. */
static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t terminal_fit(const char *text, unsigned columns)
{
    size_t at = 0;
    unsigned used = 0;

    while (text[at] && text[at] != '\n') {
        size_t escape = escape_length(text + at);
        if (escape) {
            at += escape;
            continue;
        }
        if (begins_character(text[at]) && used++ == columns)
            break;
        at++;
    }
    return at;
}

unsigned terminal_width_of(const char *text)
{
    unsigned width = 0;

    while (*text) {
        size_t escape = escape_length(text);
        width += !escape && begins_character(*text);
        text += escape ? escape : 1;
    }
    return width;
}

void terminal_erase(struct terminal_picture *picture)
{
    if (picture->line_count)
        printf("\033[%uA\r\033[J", picture->line_count);
    picture->line_count = 0;
}

void terminal_draw(struct terminal_picture *picture, const char *text)
{
    struct winsize size = window();

    terminal_erase(picture);
    while (*text && picture->line_count + 1u < size.ws_row) { /* the cursor cannot go further up */
        size_t end = strcspn(text, "\n");
        printf("%.*s%s\n", (int)terminal_fit(text, size.ws_col), text,
               terminal_color(TERMINAL_PLAIN));
        picture->line_count++;
        text += end + (text[end] == '\n');
    }
    fflush(stdout);
}
