#include "parity/oracle/differences.h"

#include <math.h>
#include <stdio.h>

#include "parity/oracle/backend.h"

static void note_stretch(struct differences *d, size_t index)
{
    if (!d->in_stretch)
        d->stretches++;
    if (d->stretches == 1)
        d->first_stretch++;
    if (d->stretches == 2 && !d->in_stretch)
        d->second_begins = index;
}

void differences_add(struct differences *d, size_t index, double actual, double wanted, double off)
{
    d->checked++;
    if (off == 0.0) {
        d->in_stretch = false;
        return;
    }
    note_stretch(d, index);
    d->in_stretch = true;
    if (d->wrong++ == 0) {
        d->first = index;
        d->first_values[0] = actual;
        d->first_values[1] = wanted;
    }
    d->last = index;
    d->not_numbers += isnan(actual) && !isnan(wanted);
    if (d->wrong == 1 || off > d->worst_off) {
        d->worst = index;
        d->worst_off = off;
        d->worst_values[0] = actual;
        d->worst_values[1] = wanted;
    }
}

static void describe_pattern(const struct differences *d, char *text, size_t size)
{
    if (d->wrong == d->checked)
        snprintf(text, size, "all that was looked at");
    else if (d->stretches == 1)
        snprintf(text, size, "one stretch of %zu", d->first_stretch);
    else
        snprintf(text, size, "%zu stretches, the first of %zu, the second begins %zu further",
                 d->stretches, d->first_stretch, d->second_begins - d->first);
}

void differences_text(const struct differences *d, const char *rule, char *ret_text, size_t size)
{
    char pattern[160];

    describe_pattern(d, pattern, sizeof(pattern));
    snprintf(ret_text, size,
             "%s: %zu wrong of %zu looked at (%zu elements), %zu of them NaN; %s\n"
             "  first %zu: is %.9g, not %.9g; worst %zu: is %.9g, not %.9g; last %zu\n"
             "  pattern: %s",
             d->name, d->wrong, d->checked, d->count, d->not_numbers, rule, d->first,
             d->first_values[0], d->first_values[1], d->worst, d->worst_values[0],
             d->worst_values[1], d->last, pattern);
}

void differences_judge(const struct differences *d, const char *rule)
{
    char text[768];

    if (d->wrong == 0)
        return;
    differences_text(d, rule, text, sizeof(text));
    backend_fail("%s", text);
}
