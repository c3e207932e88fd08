/*
 * Problem: each worker knows only a part of a step's results. After a failure the parts must be
 * merged, and every later decision must see the same bits.
 *
 * Design: arrays of doubles in which "unknown" is one NaN pattern, merged value by value. Every
 * worker adds sums in index order, so the bits are equal. Links carry a fixed little-endian layout:
 *
 *   u64 step, u32 units, u32 lanes, u32 rows beside the first two, then f64 x units, f64 x lanes
 *   and, when evaluated, f64 x lanes again and, with similarities, f64 x STEP_RECORD_PAIRS
 *
 * Failure modes: two workers that know different bits of one value violate exactness; the merge
 * fails with -EBADMSG.
 */
#include "elastic/step/step_record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json.h"

#define HEADER_SIZE 20

#define UNKNOWN_BITS      0x7ff8000000000000ull
#define COMPUTED_NAN_BITS 0xfff8000000000000ull

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

double step_record_unknown(void)
{
    return from_bits(UNKNOWN_BITS);
}

double step_record_known(double computed)
{
    return isnan(computed) ? from_bits(COMPUTED_NAN_BITS) : computed;
}

bool step_record_is_known(double value)
{
    return bits_of(value) != UNKNOWN_BITS;
}

/* The values of a record are up to four rows, which are processed alike. */
struct row {
    double *values;
    unsigned count;
};

enum { ROW_SQUARES, ROW_LOSSES, ROW_VALIDATION_LOSSES, ROW_SIMILARITIES, ROWS_MAX };

/* Return the number of rows of a record besides squares and losses. */
static unsigned further_rows(const struct step_record *record)
{
    return !record->evaluated ? 0 : !record->has_similarities ? 1 : 2;
}

static void set_further_rows(struct step_record *record, unsigned count)
{
    record->evaluated = count > 0;
    record->has_similarities = count > 1;
}

static unsigned rows_of(struct step_record *record, struct row ret_rows[ROWS_MAX])
{
    ret_rows[ROW_SQUARES] = (struct row){record->unit_squares, record->unit_count};
    ret_rows[ROW_LOSSES] = (struct row){record->lane_losses, record->lane_count};
    ret_rows[ROW_VALIDATION_LOSSES] =
        (struct row){record->lane_validation_losses, record->lane_count};
    ret_rows[ROW_SIMILARITIES] = (struct row){record->similarities, STEP_RECORD_PAIRS};
    return ROW_VALIDATION_LOSSES + further_rows(record);
}

static unsigned rows_of_const(const struct step_record *record, struct row ret_rows[ROWS_MAX])
{
    return rows_of((struct step_record *)record, ret_rows); /* callers only read */
}

static void forget(double *values, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        values[i] = step_record_unknown();
}

void step_record_init(struct step_record *record, uint64_t step, unsigned unit_count,
                      unsigned lane_count)
{
    assert(unit_count <= STEP_RECORD_UNITS_MAX && lane_count <= STEP_RECORD_LANES_MAX);
    *record =
        (struct step_record){.step = step, .unit_count = unit_count, .lane_count = lane_count};
    forget(record->unit_squares, unit_count);
    forget(record->lane_losses, lane_count);
    forget(record->lane_validation_losses, lane_count);
    forget(record->similarities, STEP_RECORD_PAIRS);
}

static bool rows_agree(struct row a, struct row b)
{
    for (unsigned i = 0; i < a.count; i++)
        if (step_record_is_known(a.values[i]) && step_record_is_known(b.values[i]) &&
            bits_of(a.values[i]) != bits_of(b.values[i]))
            return false;
    return true;
}

static bool records_agree(const struct step_record *a, const struct step_record *b)
{
    if (a->step != b->step || a->unit_count != b->unit_count || a->lane_count != b->lane_count)
        return false;
    struct row rows_a[ROWS_MAX], rows_b[ROWS_MAX];
    unsigned count_a = rows_of_const(a, rows_a);
    unsigned count_b = rows_of_const(b, rows_b);
    for (unsigned r = 0; r < MIN(count_a, count_b); r++)
        if (!rows_agree(rows_a[r], rows_b[r]))
            return false;
    return true;
}

int step_record_merge(struct step_record *into, const struct step_record *from)
{
    if (step_record_is_empty(from))
        return 0;
    if (step_record_is_empty(into)) {
        *into = *from;
        return 0;
    }
    if (!records_agree(into, from))
        return -EBADMSG;
    struct row to[ROWS_MAX], of[ROWS_MAX];
    unsigned had = rows_of(into, to), count = rows_of_const(from, of);
    for (unsigned r = had; r < count; r++)
        forget(to[r].values, to[r].count);
    set_further_rows(into, MAX(further_rows(into), further_rows(from)));
    for (unsigned r = 0; r < count; r++)
        for (unsigned i = 0; i < of[r].count; i++)
            if (!step_record_is_known(to[r].values[i]))
                to[r].values[i] = of[r].values[i];
    return 0;
}

bool step_record_disputed(const struct step_record *a, const struct step_record *b)
{
    struct row rows_a[ROWS_MAX], rows_b[ROWS_MAX];

    rows_of_const(a, rows_a);
    rows_of_const(b, rows_b);
    return a->step == b->step && a->unit_count == b->unit_count &&
           !rows_agree(rows_a[ROW_SQUARES], rows_b[ROW_SQUARES]);
}

bool step_record_complete(const struct step_record *record)
{
    struct row rows[ROWS_MAX];
    unsigned count = rows_of_const(record, rows);
    for (unsigned r = 0; r < count; r++)
        for (unsigned i = 0; i < rows[r].count; i++)
            if (!step_record_is_known(rows[r].values[i]))
                return false;
    return !step_record_is_empty(record);
}

static double sum_in_order(const double *values, unsigned count)
{
    double sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

/* With no token the sum is 0, and so is the mean. */
static double mean(const double *sums, unsigned count, uint64_t tokens)
{
    return step_record_known(sum_in_order(sums, count) / (double)MAX(tokens, (uint64_t)1));
}

double step_record_loss(const struct step_record *record, uint64_t tokens)
{
    return mean(record->lane_losses, record->lane_count, tokens);
}

double step_record_validation_loss(const struct step_record *record, uint64_t tokens)
{
    return mean(record->lane_validation_losses, record->lane_count, tokens);
}

double step_record_norm(const struct step_record *record)
{
    return step_record_known(sqrt(sum_in_order(record->unit_squares, record->unit_count)));
}

bool step_record_finite(const struct step_record *record)
{
    return isfinite(step_record_loss(record, 1)) && isfinite(step_record_norm(record));
}

static int append_row(struct bytes *bytes, struct row row)
{
    for (unsigned i = 0; i < row.count; i++) {
        uint8_t word[8];
        bytes_put_u64(word, bits_of(row.values[i]));
        int status = bytes_append(bytes, word, sizeof(word));
        if (status < 0)
            return status;
    }
    return 0;
}

int step_record_pack(const struct step_record *record, struct bytes *ret_bytes)
{
    uint8_t header[HEADER_SIZE];
    bytes_put_u64(header, record->step);
    bytes_put_u32(header + 8, record->unit_count);
    bytes_put_u32(header + 12, record->lane_count);
    bytes_put_u32(header + 16, further_rows(record));
    int status = bytes_append(ret_bytes, header, sizeof(header));

    struct row rows[ROWS_MAX];
    unsigned count = rows_of_const(record, rows);
    for (unsigned i = 0; status == 0 && i < count; i++)
        status = append_row(ret_bytes, rows[i]);
    return status;
}

int step_record_unpack(const uint8_t *data, size_t size_bytes, struct step_record *ret_record)
{
    if (size_bytes < HEADER_SIZE)
        return -EBADMSG;
    uint64_t step = bytes_get_u64(data);
    unsigned units = bytes_get_u32(data + 8);
    unsigned lanes = bytes_get_u32(data + 12);
    unsigned further = bytes_get_u32(data + 16);
    if (step > INT64_MAX || units > STEP_RECORD_UNITS_MAX || lanes > STEP_RECORD_LANES_MAX ||
        further > ROWS_MAX - ROW_VALIDATION_LOSSES)
        return -EBADMSG;

    step_record_init(ret_record, step, units, lanes);
    set_further_rows(ret_record, further);
    struct row rows[ROWS_MAX];
    unsigned count = rows_of(ret_record, rows);
    size_t values = 0;
    for (unsigned r = 0; r < count; r++)
        values += rows[r].count;
    if (size_bytes != HEADER_SIZE + 8 * values)
        return -EBADMSG;
    const uint8_t *at = data + HEADER_SIZE;
    for (unsigned r = 0; r < count; r++)
        for (unsigned i = 0; i < rows[r].count; i++, at += 8)
            rows[r].values[i] = from_bits(bytes_get_u64(at));
    return 0;
}

static const char *const row_keys[ROWS_MAX] = {"unit_squares", "lane_losses",
                                               "lane_validation_losses", "similarities"};

json_t *step_record_encode(const struct step_record *record)
{
    AUTO_JSON json_t *tree = json_pack("{sI}", "step", (json_int_t)record->step);
    if (!tree)
        return NULL;
    struct row rows[ROWS_MAX];
    unsigned count = rows_of_const(record, rows);
    for (unsigned r = 0; r < count; r++)
        if (json_put_bits64_array(tree, row_keys[r], rows[r].values, rows[r].count))
            return NULL;
    return json_incref(tree);
}

static int decode_row(const json_t *tree, const char *key, unsigned count_max, double *ret_values,
                      unsigned *ret_count, struct error *error)
{
    size_t count = 0;
    int status = json_get_bits64_array(tree, key, count_max, ret_values, &count, error);
    if (status == 0)
        *ret_count = (unsigned)count;
    return status;
}

int step_record_decode(const json_t *tree, struct step_record *ret_record, struct error *error)
{
    struct step_record record;
    step_record_init(&record, 0, 0, STEP_RECORD_LANES_MAX);
    int status = json_get_u64(tree, "step", INT64_MAX, &record.step, error);
    if (status == 0)
        status = decode_row(tree, row_keys[0], STEP_RECORD_UNITS_MAX, record.unit_squares,
                            &record.unit_count, error);
    if (status == 0)
        status = decode_row(tree, row_keys[1], STEP_RECORD_LANES_MAX, record.lane_losses,
                            &record.lane_count, error);
    record.evaluated = json_has(tree, row_keys[2]);
    unsigned validation_count = record.lane_count;
    if (status == 0 && record.evaluated)
        status = decode_row(tree, row_keys[2], STEP_RECORD_LANES_MAX, record.lane_validation_losses,
                            &validation_count, error);
    if (status == 0 && validation_count != record.lane_count)
        status = error_set(error, -EINVAL, "\"%s\" has %u values for %u lanes", row_keys[2],
                           validation_count, record.lane_count);
    unsigned pairs = STEP_RECORD_PAIRS;
    record.has_similarities = json_has(tree, row_keys[3]);
    if (status == 0 && record.has_similarities && !record.evaluated)
        status = error_set(error, -EINVAL, "\"%s\" needs \"%s\"", row_keys[3], row_keys[2]);
    if (status == 0 && record.has_similarities)
        status =
            decode_row(tree, row_keys[3], STEP_RECORD_PAIRS, record.similarities, &pairs, error);
    if (status == 0 && pairs != STEP_RECORD_PAIRS)
        status = error_set(error, -EINVAL, "\"%s\" has %u values instead of %u", row_keys[3], pairs,
                           STEP_RECORD_PAIRS);
    if (status == 0)
        *ret_record = record;
    return status;
}
