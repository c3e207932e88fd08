#include "protocol/unit_digests.h"

bool unit_digests_merge(struct unit_digests *sum, const struct unit_digests *part)
{
    bool differ = false;

    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++) {
        if (!part->known[unit])
            continue;
        differ = differ || (sum->known[unit] && sum->values[unit] != part->values[unit]);
        sum->known[unit] = true;
        sum->values[unit] = part->values[unit];
    }
    return differ;
}

static unsigned count_known(const struct unit_digests *digests)
{
    unsigned count = 0;

    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++)
        count += digests->known[unit];
    return count;
}

void unit_digests_put(struct words_writer *writer, const struct unit_digests *digests)
{
    words_put(writer, count_known(digests));
    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++)
        if (digests->known[unit]) {
            words_put(writer, unit);
            words_put(writer, digests->values[unit]);
        }
}

void unit_digests_take(struct words_reader *reader, struct unit_digests *ret_digests)
{
    uint64_t count = words_take_below(reader, STEP_RECORD_UNITS_MAX + 1);

    *ret_digests = (struct unit_digests){0};
    for (uint64_t i = 0; i < count && !reader->status; i++) {
        uint64_t unit = words_take_below(reader, STEP_RECORD_UNITS_MAX);
        ret_digests->known[unit] = true;
        ret_digests->values[unit] = words_take(reader);
    }
}
