/* The records that nodes write to etcd about themselves and their jobs, and the step records that
 * workers send each other: an accepted record comes back the same when written again. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "elastic/messages/report.h"
#include "elastic/step/step_record.h"
#include "membership/kv/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A key of any kind of record, decoded and encoded again; NULL: refused. */
typedef json_t *(*round_trip)(const json_t *tree);

#define ROUND_TRIP(name, type, done)                                                               \
    static json_t *again_##name(const json_t *tree)                                                \
    {                                                                                              \
        struct type *record = calloc(1, sizeof(*record));                                          \
        struct error error = {0};                                                                  \
        json_t *second = NULL;                                                                     \
        if (!record)                                                                               \
            return NULL;                                                                           \
        if (name##_decode(tree, record, &error) == 0) {                                            \
            second = name##_encode(record);                                                        \
            done(record);                                                                          \
        } else if (error.text[0] == '\0') {                                                        \
            abort();                                                                               \
        }                                                                                          \
        free(record);                                                                              \
        return second;                                                                             \
    }

static void nothing(void *record)
{
    (void)record;
}

ROUND_TRIP(node_record, node_record, nothing)
ROUND_TRIP(desired_record, desired_record, nothing)
ROUND_TRIP(submission_record, submission_record, nothing)
ROUND_TRIP(state_record, state_record, nothing)
ROUND_TRIP(progress_record, progress_record, nothing)
ROUND_TRIP(checkpoint_record, checkpoint_record, checkpoint_record_done)
ROUND_TRIP(object_record, object_record, nothing)
ROUND_TRIP(worker_report, worker_report, nothing)
ROUND_TRIP(node_report, node_report, nothing)
ROUND_TRIP(step_record, step_record, nothing)

static const round_trip kinds[] = {
    again_node_record,     again_desired_record,    again_submission_record, again_state_record,
    again_progress_record, again_checkpoint_record, again_object_record,     again_worker_report,
    again_node_report,     again_step_record,
};

static void check_packed(const uint8_t *data, size_t size)
{
    struct step_record *record = calloc(1, sizeof(*record));
    struct bytes packed = {0};
    if (record && step_record_unpack(data, size, record) == 0 &&
        step_record_pack(record, &packed) == 0 &&
        (packed.size_bytes != size || memcmp(packed.data, data, size) != 0))
        abort();
    bytes_done(&packed);
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_JSON json_t *tree = NULL;
    check_packed(data, size);
    if (json_parse((const char *)data, size, "fuzz", &tree, NULL) != 0)
        return 0;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        AUTO_JSON json_t *second = kinds[i](tree), *third = second ? kinds[i](second) : NULL;
        if (second && (!third || !json_equal(second, third)))
            abort();
    }
    return 0;
}
