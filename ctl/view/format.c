#include "ctl/view/format.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define LOSS_PLAIN 9999.99995 /* above this (a run that explodes) decimals are meaningless */

const char *format_count(double count, char text[FORMAT_SIZE])
{
    static const char units[] = {'\0', 'k', 'M', 'G', 'T'};
    unsigned unit = 0;

    if (!isfinite(count)) {
        snprintf(text, FORMAT_SIZE, "-");
        return text;
    }
    while (fabs(count) >= 999.95 && unit + 1 < sizeof(units)) {
        count /= 1000;
        unit++;
    }
    if (unit)
        snprintf(text, FORMAT_SIZE, "%.1f%c", count, units[unit]);
    else
        snprintf(text, FORMAT_SIZE, "%.0f", count);
    return text;
}

const char *format_duration(double seconds, char text[FORMAT_SIZE])
{
    if (!isfinite(seconds) || seconds < 0) {
        snprintf(text, FORMAT_SIZE, "-");
        return text;
    }
    unsigned long long whole = (unsigned long long)(seconds + 0.5);
    if (seconds < 0.9995)
        snprintf(text, FORMAT_SIZE, "%.*f ms", seconds < 0.00995 ? 1 : 0, seconds * 1e3);
    else if (seconds < 59.95)
        snprintf(text, FORMAT_SIZE, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(text, FORMAT_SIZE, "%llum %02llus", whole / 60, whole % 60);
    else if (whole < 86400)
        snprintf(text, FORMAT_SIZE, "%lluh %02llum", whole / 3600, whole / 60 % 60);
    else
        snprintf(text, FORMAT_SIZE, "%llud %02lluh", whole / 86400, whole / 3600 % 24);
    return text;
}

const char *format_loss(double loss, char text[FORMAT_SIZE])
{
    if (isnan(loss))
        snprintf(text, FORMAT_SIZE, "-");
    else
        snprintf(text, FORMAT_SIZE, fabs(loss) < LOSS_PLAIN ? "%.4f" : "%.2e", loss);
    return text;
}

static bool to_local(uint64_t unix_ns, struct tm *ret_local)
{
    time_t seconds = (time_t)(unix_ns / NS_PER_SECOND);

    return localtime_r(&seconds, ret_local);
}

const char *format_time(uint64_t unix_ns, char text[FORMAT_SIZE])
{
    struct tm local;

    if (!to_local(unix_ns, &local) || !strftime(text, FORMAT_SIZE, "%H:%M:%S", &local))
        snprintf(text, FORMAT_SIZE, "-");
    return text;
}

const char *format_moment(uint64_t unix_ns, char text[FORMAT_SIZE])
{
    struct tm local;

    if (!to_local(unix_ns, &local) || !strftime(text, FORMAT_SIZE, "%Y-%m-%d %H:%M:%S %Z", &local))
        snprintf(text, FORMAT_SIZE, "-");
    return text;
}

const char *format_date(uint64_t unix_ns, char text[FORMAT_SIZE])
{
    struct tm local;

    if (!to_local(unix_ns, &local) || !strftime(text, FORMAT_SIZE, "%Y-%m-%d", &local))
        snprintf(text, FORMAT_SIZE, "-");
    return text;
}

/* Units 1 + 2l and 2 + 2l are layer l, so half a layer is a cut between its sublayers. */
const char *format_units(unsigned first, unsigned end, unsigned unit_count,
                         char text[FORMAT_UNITS_SIZE])
{
    bool embedding = first == 0 && end > 0, head = end == unit_count && end > first;
    unsigned from = embedding ? 1 : first, to = head ? end - 1 : end; /* units of layers */
    char layers[FORMAT_UNITS_SIZE / 2] = "";

    if (to > from) {
        unsigned first_layer = (from - 1) / 2, last_layer = (to - 2) / 2;
        bool cut_before = from % 2 == 0, cut_after = to % 2 == 0;
        if (first_layer == last_layer)
            snprintf(layers, sizeof(layers), "layer %u%s", first_layer,
                     cut_before  ? " mlp"
                     : cut_after ? " attention"
                                 : "");
        else
            snprintf(layers, sizeof(layers), "layers %u%s-%u%s", first_layer,
                     cut_before ? " mlp" : "", last_layer, cut_after ? " attention" : "");
    }
    snprintf(text, FORMAT_UNITS_SIZE, "%s%s%s%s%s", embedding ? "embedding" : "",
             embedding && layers[0] ? ", " : "", layers,
             head && (embedding || layers[0]) ? ", " : "", head ? "head" : "");
    return text;
}

const char *format_bar(double share, char text[FORMAT_BAR_SIZE])
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t used = 0;
    double bounded = isfinite(share) ? fmin(fmax(share, 0), 1) : 0;
    unsigned filled = (unsigned)(bounded * FORMAT_BAR_CELLS * 8 + 0.5);

    for (unsigned cell = 0; cell < FORMAT_BAR_CELLS; cell++) {
        const char *word = filled >= 8 * (cell + 1) ? "█"
                           : filled > 8 * cell      ? eighths[filled - 8 * cell]
                                                    : " ";
        used += (size_t)snprintf(text + used, FORMAT_BAR_SIZE - used, "%s", word);
    }
    return text;
}

static bool needs_quotes(const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,=@%+-";

    return !text[0] || text[strspn(text, plain)];
}

bool format_quoted(const char *text, char *ret_quoted, unsigned size)
{
    size_t used = 0;
    bool quotes = needs_quotes(text);

    if (quotes && used + 1 < size)
        ret_quoted[used++] = '\'';
    for (; *text; text++) {
        const char *piece = *text == '\'' ? "'\\''" : (char[]){*text, '\0'};
        size_t length = strlen(piece);
        if (used + length + 2 > size)
            return false;
        memcpy(ret_quoted + used, piece, length);
        used += length;
    }
    if (quotes)
        ret_quoted[used++] = '\'';
    ret_quoted[used] = '\0';
    return true;
}
