#include "protocol/step_commit_message.h"

#include <errno.h>
#include <string.h>

#include "base/words.h"

#define COUNT_BYTES 8

/* ---- the frame: a count of words, the words, a record ---- */

static int begin(struct words_writer *writer, struct bytes *message, size_t *ret_start)
{
    *writer = (struct words_writer){.bytes = message};
    *ret_start = message->size_bytes;
    words_put(writer, 0); /* the count, which end() fills in */
    return writer->status;
}

static int end(const struct words_writer *writer, size_t start, const struct step_record *record)
{
    struct bytes *message = writer->bytes;

    if (writer->status)
        return writer->status;
    bytes_put_u64(message->data + start, (message->size_bytes - start - COUNT_BYTES) / 8);
    return step_record_pack(record, message);
}

/* Return the words of a message, and in *ret_record its record. */
static struct words_reader open_message(const uint8_t *data, size_t size_bytes,
                                        struct step_record *ret_record)
{
    struct words_reader reader = {.at = data + COUNT_BYTES};
    uint64_t count = size_bytes >= COUNT_BYTES ? bytes_get_u64(data) : UINT64_MAX;

    if (size_bytes < COUNT_BYTES || count > (size_bytes - COUNT_BYTES) / 8) {
        reader.status = -EBADMSG;
        return reader;
    }
    reader.count = (size_t)count;
    size_t used = COUNT_BYTES + 8 * (size_t)count;
    reader.status = step_record_unpack(data + used, size_bytes - used, ret_record);
    return reader;
}

/* ---- parts of both messages ---- */

static void put_unable(struct words_writer *writer, const struct checkpoint_writers_unable *unable)
{
    words_put(writer, unable->count);
    for (unsigned i = 0; i < CHECKPOINT_WRITERS_UNABLE_MAX; i++)
        words_put(writer, unable->ranks[i]);
}

/* Ranks beyond the room are counted, but not named. */
static void take_unable(struct words_reader *reader, uint64_t ranks,
                        struct checkpoint_writers_unable *ret_unable)
{
    ret_unable->count = words_take_below(reader, ranks + 1);
    for (unsigned i = 0; i < CHECKPOINT_WRITERS_UNABLE_MAX; i++)
        ret_unable->ranks[i] =
            i < ret_unable->count ? words_take_below(reader, ranks) : words_take(reader);
}

/* ---- up ---- */

static void put_readiness(struct words_writer *writer, const struct readiness *readiness)
{
    words_put(writer, readiness->announced_min);
    words_put(writer, readiness->announced_max);
    words_put(writer, readiness->lacking_count);
    for (unsigned i = 0; i < READINESS_LACKING_MAX; i++)
        words_put(writer, readiness->lacking[i]);
}

static void take_readiness(struct words_reader *reader, uint64_t ranks,
                           struct readiness *ret_readiness)
{
    ret_readiness->announced_min = words_take(reader);
    ret_readiness->announced_max = words_take(reader);
    ret_readiness->lacking_count = words_take_below(reader, ranks + 1);
    for (unsigned i = 0; i < READINESS_LACKING_MAX; i++)
        ret_readiness->lacking[i] =
            i < ret_readiness->lacking_count ? words_take_below(reader, ranks) : words_take(reader);
}

/* The remaining words are times of known ranks: (rank, ns). */
static void take_times(struct words_reader *reader, uint64_t ranks, uint64_t *ret_busy_ns)
{
    memset(ret_busy_ns, 0, ranks * sizeof(*ret_busy_ns));
    while (reader->count > 0 && !reader->status) {
        uint64_t rank = words_take_below(reader, ranks);
        ret_busy_ns[rank] = words_take(reader);
    }
}

int step_commit_pack_part(const struct step_commit_part *part, const struct plan_layout *layout,
                          struct bytes *message)
{
    const struct step_commit_up *up = &part->up;
    struct words_writer writer;
    size_t start;
    int status = begin(&writer, message, &start);

    if (status)
        return status;
    words_put(&writer, up->data_digest);
    words_put(&writer, up->checkpoint_durable);
    words_put(&writer, up->checkpoint_failed);
    words_put(&writer, part->dispute);
    words_put(&writer, up->checkpoint_busy);
    put_unable(&writer, &up->unable);
    put_readiness(&writer, &up->readiness);
    unit_digests_put(&writer, &up->digests);
    for (unsigned rank = 0; rank < layout->worker_count; rank++)
        if (part->busy_ns[rank]) {
            words_put(&writer, rank);
            words_put(&writer, part->busy_ns[rank]);
        }
    return end(&writer, start, &up->record);
}

int step_commit_unpack_part(const void *data, size_t size_bytes, const struct plan_layout *layout,
                            struct step_commit_part *ret_part)
{
    struct step_commit_up *up = &ret_part->up;
    struct words_reader reader = open_message(data, size_bytes, &up->record);

    up->busy_ns = 0;
    up->data_digest = words_take(&reader);
    up->checkpoint_durable = words_take(&reader);
    up->checkpoint_failed = words_take(&reader);
    ret_part->dispute = (enum dispute_about)words_take_below(&reader, DISPUTE_STATE + 1);
    up->checkpoint_busy = words_take_below(&reader, 2);
    take_unable(&reader, layout->worker_count, &up->unable);
    take_readiness(&reader, layout->worker_count, &up->readiness);
    unit_digests_take(&reader, &up->digests);
    take_times(&reader, layout->worker_count, ret_part->busy_ns);
    return reader.status;
}

/* ---- down ---- */

/* The rounds after the last step have no times. */
static unsigned slowest_count(const struct plan_layout *layout, bool closing)
{
    return closing ? 0 : layout->stage_count;
}

int step_commit_pack_down(const struct step_commit_down *down, const struct plan_layout *layout,
                          bool closing, struct bytes *message)
{
    struct words_writer writer;
    size_t start;
    int status = begin(&writer, message, &start);

    if (status)
        return status;
    words_put(&writer, down->switch_generation);
    words_put(&writer, down->checkpoint_durable);
    words_put(&writer, down->checkpoint_failed);
    words_put(&writer, down->dispute);
    words_put(&writer, down->checkpoint_busy);
    put_unable(&writer, &down->unable);
    for (unsigned stage = 0; stage < slowest_count(layout, closing); stage++) {
        words_put(&writer, down->slowest[stage].rank);
        words_put(&writer, down->slowest[stage].lane_ns);
        words_put(&writer, down->slowest[stage].fastest_ns);
    }
    return end(&writer, start, &down->record);
}

int step_commit_unpack_down(const void *data, size_t size_bytes, const struct plan_layout *layout,
                            bool closing, struct step_commit_down *ret_down)
{
    struct words_reader reader = open_message(data, size_bytes, &ret_down->record);

    ret_down->switch_generation = words_take(&reader);
    ret_down->checkpoint_durable = words_take(&reader);
    ret_down->checkpoint_failed = words_take(&reader);
    ret_down->dispute = (enum dispute_about)words_take_below(&reader, DISPUTE_STATE + 1);
    ret_down->checkpoint_busy = words_take_below(&reader, 2);
    take_unable(&reader, layout->worker_count, &ret_down->unable);
    for (unsigned stage = 0; stage < slowest_count(layout, closing); stage++) {
        ret_down->slowest[stage].rank = (unsigned)words_take_below(&reader, layout->worker_count);
        ret_down->slowest[stage].lane_ns = words_take(&reader);
        ret_down->slowest[stage].fastest_ns = words_take(&reader);
    }
    if (reader.count > 0)
        reader.status = -EBADMSG;
    return reader.status;
}
