#include "ctl/view/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 80
#define ROWS_DEFAULT    24

#define CONTINUED_COLUMNS 4u /* indent of the rest of a long line */

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

/* Return the length of an escape sequence "ESC [ ... letter" at @text; 0: none. */
static size_t escape_length(const char *text)
{
    if (text[0] != '\033' || text[1] != '[')
        return 0;
    size_t length = 2 + strspn(text + 2, "0123456789;");
    return text[length] ? length + 1 : length;
}

/* All characters that firnctl prints (letters, bars, braille, arrows) are one column wide. */
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

size_t terminal_break(const char *text, unsigned columns)
{
    size_t fits = terminal_fit(text, columns), at = fits;

    if (text[fits] == '\0' || text[fits] == '\n')
        return fits;
    while (at > fits / 2 && text[at] != ' ')
        at--;
    return text[at] == ' ' ? at : fits;
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

/* ---- keys ---- */

static struct termios keys_before;

static void restore_keys(void)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &keys_before);
}

/* Restore the terminal before the program ends: else the shell would have no echo. */
static void on_signal(int signal_number)
{
    restore_keys();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void terminal_take_keys(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static bool taken;

    if (taken || !terminal_is_live() || !isatty(STDIN_FILENO) ||
        tcgetattr(STDIN_FILENO, &keys_before))
        return;
    struct termios raw = keys_before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || tcsetattr(STDIN_FILENO, TCSANOW, &raw))
        return; /* in the background: another program has the terminal */
    taken = true;
    atexit(restore_keys);
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++)
        signal(ends[i], on_signal);
}

bool terminal_asked_to_leave(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;

    while (terminal_is_live() && isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
           poll(&input, 1, 0) == 1 && (input.revents & POLLIN) && read(STDIN_FILENO, &key, 1) == 1)
        if (key == 'q' || key == 'Q')
            return true;
    return false;
}

/* ---- the picture ---- */

void terminal_erase(struct terminal_picture *picture)
{
    if (picture->line_count)
        printf("\033[%uA\r\033[J", picture->line_count);
    picture->line_count = 0;
}

void terminal_draw(struct terminal_picture *picture, const char *text)
{
    struct winsize size = window();
    bool continues = false; /* the line before did not fit */

    terminal_erase(picture);
    while (*text && picture->line_count + 1u < size.ws_row) { /* the cursor cannot go further up */
        unsigned indent = continues ? CONTINUED_COLUMNS : 0;
        size_t length = terminal_break(text, MAX(size.ws_col, 2 * CONTINUED_COLUMNS) - indent);
        printf("%*s%.*s%s\n", (int)indent, "", (int)length, text, terminal_color(TERMINAL_PLAIN));
        picture->line_count++;
        text += length;
        continues = *text && *text != '\n';
        text += strspn(text, continues ? " " : "") + (*text == '\n');
    }
    fflush(stdout);
}
