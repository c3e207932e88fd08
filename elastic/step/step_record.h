/*
 * The values on which all ranks agree for one step: the square sums of every unit's gradient and
 * the losses. A record travels in the commit exchange of a step, in reports after a failure, and in
 * the plan that keeps a step. Values are exact (bits), so metrics are equal on every rank.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"

#define STEP_RECORD_UNITS_MAX 514 /* 2 * 256 layers + 2 */
#define STEP_RECORD_LANES_MAX 1024
#define STEP_RECORD_PAIRS     120 /* of the 16 rows that elastic/step/plasticity.h compares */

/*
 * "Not known here" is one bit pattern, NAN's. A run that diverges computes NaN too, and must still
 * commit its steps: step_record_known() turns each computed NaN into one other pattern, so that
 * computed NaNs count as known and agree on all ranks. Every computed value goes through it.
 */
double step_record_unknown(void);
double step_record_known(double computed);
bool step_record_is_known(double value);

struct step_record {
    uint64_t step; /* from 1; 0: empty */
    unsigned unit_count, lane_count;
    /* Square sum of each unit's reduced gradient; NaN: unknown here. Frozen units: 0. */
    double unit_squares[STEP_RECORD_UNITS_MAX];
    /* Sum of the token losses of each lane; NaN: unknown here. */
    double lane_losses[STEP_RECORD_LANES_MAX];
    bool evaluated; /* validation ran with the parameters before this step */
    double lane_validation_losses[STEP_RECORD_LANES_MAX];
    bool has_similarities; /* of a layer (elastic/step/plasticity.h); only where `evaluated` */
    double similarities[STEP_RECORD_PAIRS];
};

/** step_record_is_empty() - return whether the record is of no step */
static inline bool step_record_is_empty(const struct step_record *record)
{
    return record->step == 0;
}

/**
 * step_record_init() - set up a record of @step with every value unknown; counts within the maxima
 * above
 */
void step_record_init(struct step_record *record, uint64_t step, unsigned unit_count,
                      unsigned lane_count);

/**
 * step_record_merge() - copy the values that are known in @from and unknown in @into
 *
 * An empty @from changes nothing; an empty @into becomes @from. `evaluated` and `has_similarities`
 * are set if either has them. Return: 0; -EBADMSG when the two have different steps or shapes, or a
 * value known in both differs in a bit (@into is unchanged).
 */
int step_record_merge(struct step_record *into, const struct step_record *from) CHECK_RESULT;

/**
 * step_record_disputed() - return whether the records of one step differ in a square sum that both
 * know
 */
bool step_record_disputed(const struct step_record *a, const struct step_record *b);

/** step_record_complete() - return whether the record is not empty and has no unknown value */
bool step_record_complete(const struct step_record *record);

/**
 * step_record_loss(), step_record_validation_loss() - return the mean token loss: lane sums added
 * in lane order, divided by the @tokens that count. With 0 tokens the mean is 0. A NaN has the same
 * bit pattern on every machine.
 */
double step_record_loss(const struct step_record *record, uint64_t tokens);
double step_record_validation_loss(const struct step_record *record, uint64_t tokens);

/**
 * step_record_finite() - return whether loss and gradient norm of a complete record are finite;
 * otherwise its step changes no parameter (train.on_nan of a job). Equal records give equal
 * results.
 */
bool step_record_finite(const struct step_record *record);

/**
 * step_record_norm() - return the global gradient norm: unit squares added in unit order, then the
 * root
 */
double step_record_norm(const struct step_record *record);

/** step_record_pack() - append the little-endian wire format; 0 or -ENOMEM */
int step_record_pack(const struct step_record *record, struct bytes *ret_bytes) CHECK_RESULT;
/**
 * step_record_unpack() - decode exactly @size_bytes; -EBADMSG on any input that step_record_pack()
 * does not write
 */
int step_record_unpack(const uint8_t *data, size_t size_bytes,
                       struct step_record *ret_record) CHECK_RESULT;

/**
 * step_record_encode() - encode as JSON with values as bits; new reference, NULL when out of memory
 */
json_t *step_record_encode(const struct step_record *record);
/** step_record_decode() - decode the JSON form; -EINVAL names the key */
int step_record_decode(const json_t *tree, struct step_record *ret_record,
                       struct error *error) CHECK_RESULT;
