/*
 * What the world agrees on for one step: the square sums of every unit's gradient and the losses.
 * It travels up and down the exchange that commits a step, in reports after a failure, and in the
 * plan that lets a step stand. Values are exact (bits), so metrics come out equal everywhere.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"

#define STEP_RECORD_UNITS_MAX 514  /* 2 * 256 layers + 2 */
#define STEP_RECORD_LANES_MAX 1024

struct step_record {
    uint64_t step; /* from 1; 0: empty */
    unsigned unit_count, lane_count;
    /* Square sum of each unit's reduced gradient; NaN: not known here. Frozen units: 0. */
    double unit_squares[STEP_RECORD_UNITS_MAX];
    /* Sum of the token losses of each lane; NaN: not known here. */
    double lane_losses[STEP_RECORD_LANES_MAX];
    bool evaluated; /* validation ran with the parameters this step starts from */
    double lane_validation_losses[STEP_RECORD_LANES_MAX];
};

void step_record_init(struct step_record *record, uint64_t step, unsigned unit_count, unsigned lane_count);
/** step_record_merge() - take what @from knows and @into does not; -EBADMSG when both know and differ */
int step_record_merge(struct step_record *into, const struct step_record *from) CHECK_RESULT;
bool step_record_complete(const struct step_record *record);

/** step_record_loss() - mean token loss: lane sums added in lane order, over @tokens */
double step_record_loss(const struct step_record *record, uint64_t tokens);
double step_record_validation_loss(const struct step_record *record, uint64_t tokens);
/** step_record_norm() - global gradient norm: unit squares added in unit order, then the root */
double step_record_norm(const struct step_record *record);

/** step_record_pack(), step_record_unpack() - little-endian bytes for links; -EBADMSG on bad input */
int step_record_pack(const struct step_record *record, struct bytes *ret_bytes) CHECK_RESULT;
int step_record_unpack(const uint8_t *data, size_t size_bytes, struct step_record *ret_record) CHECK_RESULT;
json_t *step_record_encode(const struct step_record *record);
int step_record_decode(const json_t *tree, struct step_record *ret_record, struct error *error) CHECK_RESULT;
