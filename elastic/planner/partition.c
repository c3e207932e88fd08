/*
 * Problem: cut a chain of units into stages so that the slowest stage is as fast as possible.
 *
 * Design: least[k][i] is the best largest sum of the suffix [i, units) in exactly k stages. If the
 * first of those stages ends at j, the cost is max(sum(i, j), least[k - 1][j]). The sum grows with
 * j and the rest shrinks, so bisection finds the best j where they cross. With a restriction on
 * ranges the rest need not shrink, so every j is tried. Suffixes (not prefixes) because the cuts
 * are then read from the front, each as early as the optimum permits. Ties are resolved without a
 * search and identically on every machine.
 *
 * Sums are differences of one array of prefix sums, so equal comparisons mean equal bits.
 */
#include "elastic/planner/partition.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct partition_table {
    unsigned unit_count, stages_max, first_least;
    unsigned solved; /* rows of `least` that are solved, one per number of stages */
    partition_allowed allowed;
    void *context;
    double *sums;  /* unit_count + 1 prefix sums */
    double *least; /* (stages_max + 1) rows of unit_count + 1 */
};

static double *row(const struct partition_table *table, unsigned stages)
{
    return table->least + (size_t)stages * (table->unit_count + 1);
}

static double range_sum(const struct partition_table *table, unsigned first, unsigned end)
{
    return table->sums[end] - table->sums[first];
}

static bool range_allowed(const struct partition_table *table, unsigned first, unsigned end,
                          unsigned stages)
{
    return !table->allowed || table->allowed(table->context, first, end, stages);
}

static double with_first_stage(const struct partition_table *table, unsigned first, unsigned end,
                               unsigned stages)
{
    return fmax(range_sum(table, first, end), row(table, stages - 1)[end]);
}

/* Return the earliest end of a stage that begins at @first. */
static unsigned least_end(const struct partition_table *table, unsigned first)
{
    return first == 0 ? MAX(1u, table->first_least) : first + 1;
}

/* Return the first end in [low, high] at which the first stage costs more than the rest; high if
 * none. */
static unsigned crossing(const struct partition_table *table, unsigned first, unsigned low,
                         unsigned high, unsigned stages)
{
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (range_sum(table, first, middle) >= row(table, stages - 1)[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static double solve_one(const struct partition_table *table, unsigned first, unsigned stages)
{
    unsigned units = table->unit_count;
    if (units - first < stages)
        return INFINITY;
    if (stages == 1)
        return range_allowed(table, first, units, 1) ? range_sum(table, first, units) : INFINITY;

    unsigned low = least_end(table, first), high = units - (stages - 1);
    double best = INFINITY;
    if (low > high)
        return INFINITY;
    if (!table->allowed) {
        unsigned end = crossing(table, first, low, high, stages);
        best = with_first_stage(table, first, end, stages);
        return end > low ? fmin(best, with_first_stage(table, first, end - 1, stages)) : best;
    }
    for (unsigned end = low; end <= high && range_allowed(table, first, end, stages); end++)
        best = fmin(best, with_first_stage(table, first, end, stages));
    return best;
}

static int fill_sums(struct partition_table *table, const double *costs)
{
    table->sums[0] = 0;
    for (unsigned i = 0; i < table->unit_count; i++) {
        if (!isfinite(costs[i]) || costs[i] < 0)
            return -EINVAL;
        table->sums[i + 1] = table->sums[i] + costs[i];
    }
    return 0;
}

int partition_table_new(const double *costs, unsigned unit_count, unsigned stages_max,
                        unsigned first_least, partition_allowed allowed, void *context,
                        struct partition_table **ret_table)
{
    if (stages_max == 0 || stages_max > unit_count)
        return -EINVAL;
    struct partition_table *table = calloc(1, sizeof(*table));
    if (!table)
        return -ENOMEM;
    *table = (struct partition_table){.unit_count = unit_count,
                                      .stages_max = stages_max,
                                      .first_least = first_least,
                                      .allowed = allowed,
                                      .context = context};
    size_t width = (size_t)unit_count + 1;
    table->sums = calloc(width, sizeof(double));
    table->least = calloc(width * (stages_max + 1), sizeof(double));
    int status = !table->sums || !table->least ? -ENOMEM : fill_sums(table, costs);
    if (status < 0) {
        partition_table_free(table);
        return status;
    }
    *ret_table = table;
    return 0;
}

void partition_table_free(struct partition_table *table)
{
    if (!table)
        return;
    free(table->sums);
    free(table->least);
    free(table);
}

/* Solve in order, because each number of stages needs all smaller ones. */
static void solve_to(struct partition_table *table, unsigned stages)
{
    for (; table->solved < stages; table->solved++)
        for (unsigned first = 0; first <= table->unit_count; first++)
            row(table, table->solved + 1)[first] = solve_one(table, first, table->solved + 1);
}

double partition_table_largest(struct partition_table *table, unsigned stage_count)
{
    assert(stage_count > 0 && stage_count <= table->stages_max);
    solve_to(table, stage_count);
    return row(table, stage_count)[0];
}

void partition_table_cuts(struct partition_table *table, unsigned stage_count, unsigned *ret_first)
{
    double largest = partition_table_largest(table, stage_count);
    assert(isfinite(largest));
    ret_first[0] = 0;
    for (unsigned stage = 1; stage < stage_count; stage++) {
        unsigned first = ret_first[stage - 1], end = least_end(table, first);
        unsigned stages_left = stage_count - stage + 1;
        while (with_first_stage(table, first, end, stages_left) > largest)
            end++;
        assert(range_allowed(table, first, end, stages_left));
        ret_first[stage] = end;
    }
    ret_first[stage_count] = table->unit_count;
}
