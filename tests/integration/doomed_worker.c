/*
 * firn-worker, except that a test may order its end at an exact place.
 *
 * The program is made of the same objects as firn-worker: the linker leads the calls of each place
 * through this file (--wrap, see CMakeLists.txt), so that the installed worker has no such hook.
 * Orders are files in the node's folder of the job, checked at every place:
 *
 *   doom-<slot>        "<place> <step> <signal>": send the signal to this process at that place, in
 *                      that step or a later step. The order is removed first: it is for one worker.
 *   gradient-<slot>    flip one bit of a gradient after the reduction, if another replica can
 *                      detect the difference. The order is removed first.
 *   parameter-<slot>   flip one bit of a parameter between two steps. The order is removed first.
 *   wire-<slot>        flip one bit of a tensor on its way to a peer; the local tensor stays right.
 *                      The order is removed first.
 *   disk-fault         "<errno>": while the file exists, write and fsync of checkpoint files fail.
 *   slow-disk          "<milliseconds>": while the file exists, fsync of a checkpoint file takes
 *                      that long.
 *   receipt-fault      "<errno>": the node cannot record the shares of which it has copies; with
 *                      ESTALE it records them for an earlier attempt. The order is removed first.
 *
 * "A later step", because training continues while a test gives an order.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "checkpoint/write/writer.h"
#include "worker/checkpoint/replication.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/device/tags.h"
#include "worker/session/trainer.h"
#include "worker/state/handover.h"
#include "worker/state/restore.h"
#include "worker/step/engine.h"
#include "worker/step/gradient_norm.h"

#define PATH_SIZE (OPTIONS_PATH_SIZE + 32)

static struct {
    char doom[PATH_SIZE], gradient[PATH_SIZE], parameter[PATH_SIZE], wire[PATH_SIZE],
        disk_fault[PATH_SIZE], slow_disk[PATH_SIZE], receipt_fault[PATH_SIZE];
    uint64_t step; /* being computed or committed; of the main thread, read by others */
} self;

/* ---- orders ---- */

static bool read_order(const char *path, char ret_line[80])
{
    FILE *order = fopen(path, "re");
    bool is_there = order && fgets(ret_line, 80, order);

    if (order)
        fclose(order);
    return is_there;
}

static void pass(const char *place)
{
    char line[80], *at;
    uint64_t step = __atomic_load_n(&self.step, __ATOMIC_RELAXED);
    size_t length = strlen(place);

    if (!read_order(self.doom, line) || strncmp(line, place, length) != 0 || line[length] != ' ' ||
        step < strtoull(line + length, &at, 10) || unlink(self.doom))
        return;
    fprintf(stderr, "dies %s in step %" PRIu64 " by order\n", place, step);
    kill(getpid(), (int)strtol(at, NULL, 10));
}

static int ordered_error(const char *path)
{
    char line[80];

    return read_order(path, line) ? -(int)strtol(line, NULL, 10) : 0;
}

static int disk_error(void)
{
    return ordered_error(self.disk_fault);
}

/* ---- the wire ---- */

#define WIRE_BYTES_MIN 512 /* smaller messages are no tensors */

ssize_t __real_sendmsg(int descriptor, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    struct iovec parts[4];
    char line[80];
    size_t largest = 0;

    for (size_t i = 0; i < message->msg_iovlen; i++)
        if (message->msg_iov[i].iov_len > message->msg_iov[largest].iov_len)
            largest = i;
    if (message->msg_iovlen > 4 || message->msg_iov[largest].iov_len < WIRE_BYTES_MIN ||
        !read_order(self.wire, line) || unlink(self.wire))
        return __real_sendmsg(descriptor, message, flags);
    memcpy(parts, message->msg_iov, message->msg_iovlen * sizeof(*parts));
    struct msghdr damaged = {.msg_iov = parts, .msg_iovlen = message->msg_iovlen};
    struct iovec *part = &parts[largest];
    AUTO_FREE uint8_t *copy = malloc(part->iov_len);
    if (!copy)
        return __real_sendmsg(descriptor, message, flags);
    memcpy(copy, part->iov_base, part->iov_len);
    copy[part->iov_len / 2] ^= 1;
    part->iov_base = copy;
    fprintf(stderr, "flips a bit on the wire by order\n");
    return __real_sendmsg(descriptor, &damaged, flags);
}

/* ---- the disk ---- */

static const struct io *disk;

static int faulty_write(struct io_context *context, int descriptor, const void *data,
                        size_t size_bytes, uint64_t offset, uint64_t user)
{
    int status = disk_error();
    return status ? status : disk->write(context, descriptor, data, size_bytes, offset, user);
}

static void take_time(void)
{
    char line[80];

    if (read_order(self.slow_disk, line))
        poll(NULL, 0, (int)strtol(line, NULL, 10));
}

static int faulty_sync(struct io_context *context, int descriptor)
{
    int status = disk_error();

    take_time();
    return status ? status : disk->sync(context, descriptor);
}

const struct io *__real_io_probe(const char **ret_why);
const struct io *__wrap_io_probe(const char **ret_why);
const struct io *__wrap_io_probe(const char **ret_why)
{
    static struct io faulty;

    disk = __real_io_probe(ret_why);
    faulty = *disk;
    faulty.write = faulty_write;
    faulty.sync = faulty_sync;
    return &faulty;
}

/* ---- the life of a worker ---- */

int __real_trainer_run(const struct worker_options *options, struct error *error);
int __wrap_trainer_run(const struct worker_options *options, struct error *error);
int __wrap_trainer_run(const struct worker_options *options, struct error *error)
{
    snprintf(self.doom, sizeof(self.doom), "%s/doom-%u", options->job_dir, options->slot);
    snprintf(self.gradient, PATH_SIZE, "%s/gradient-%u", options->job_dir, options->slot);
    snprintf(self.wire, PATH_SIZE, "%s/wire-%u", options->job_dir, options->slot);
    snprintf(self.parameter, PATH_SIZE, "%s/parameter-%u", options->job_dir, options->slot);
    snprintf(self.slow_disk, sizeof(self.slow_disk), "%s/slow-disk", options->job_dir);
    snprintf(self.disk_fault, sizeof(self.disk_fault), "%s/disk-fault", options->job_dir);
    snprintf(self.receipt_fault, sizeof(self.receipt_fault), "%s/receipt-fault", options->job_dir);
    pass("starting");
    return __real_trainer_run(options, error);
}

int __real_restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                         struct error *error);
int __wrap_restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                         struct error *error);
int __wrap_restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                         struct error *error)
{
    pass("restoring");
    return __real_restore_units(state, path, first, count, error);
}

/* ---- the life of a generation ---- */

int __real_mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
                     struct error *error);
int __wrap_mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
                     struct error *error);
int __wrap_mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
                     struct error *error)
{
    int status;

    pass("linking");
    status = __real_mesh_open(options, cancel, ret_mesh, error);
    if (!status)
        pass("linked");
    return status;
}

int __real_handover_finish(struct handover *handover);
int __wrap_handover_finish(struct handover *handover);
int __wrap_handover_finish(struct handover *handover)
{
    int status;

    pass("receiving");
    status = __real_handover_finish(handover);
    if (!status)
        pass("handed-over");
    return status;
}

int __real_handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh);
int __wrap_handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh);
int __wrap_handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh)
{
    pass("settling");
    return __real_handover_release(plan, rank, mesh);
}

/* ---- the life of a step ---- */

/* On the CPU, where it lies in memory. */
static void flip_a_bit(const char *order, unsigned unit, float *value)
{
    char line[80];
    uint32_t bits, mask;

    if (!read_order(order, line) || unlink(order))
        return;
    memcpy(&bits, value, sizeof(bits));
    mask = (uint32_t)strtoul(line, NULL, 10);
    bits = mask ? bits | mask : bits ^ 1u << 20;
    memcpy(value, &bits, sizeof(bits));
    fprintf(stderr, "a bit of unit %u is flipped by order\n", unit);
}

int __real_engine_compute(struct engine *engine, struct error *error);
int __wrap_engine_compute(struct engine *engine, struct error *error);
int __wrap_engine_compute(struct engine *engine, struct error *error)
{
    int status;

    __atomic_store_n(&self.step, engine->state->applied_step + 1, __ATOMIC_RELAXED);
    pass("computing");
    const struct state_unit *unit = &engine->state->units[engine->part.first_unit];
    if (engine->plan->layout.replica_count > 1) /* of the last position, which every step uses */
        flip_a_bit(self.parameter, engine->part.first_unit,
                   unit->parameters + unit->layout.count - 1);
    status = __real_engine_compute(engine, error);
    if (!status)
        pass("holding");
    return status;
}

void __real_engine_apply(struct engine *engine, const struct step_record *record);
void __wrap_engine_apply(struct engine *engine, const struct step_record *record);
void __wrap_engine_apply(struct engine *engine, const struct step_record *record)
{
    pass("committed");
    __real_engine_apply(engine, record);
    pass("applied");
}

void __real_gradient_norm_record(struct gradient_norm *squares, const struct plan *plan,
                                 unsigned rank, float *const *gradients,
                                 struct step_record *record);
void __wrap_gradient_norm_record(struct gradient_norm *squares, const struct plan *plan,
                                 unsigned rank, float *const *gradients,
                                 struct step_record *record);
void __wrap_gradient_norm_record(struct gradient_norm *squares, const struct plan *plan,
                                 unsigned rank, float *const *gradients, struct step_record *record)
{
    unsigned unit = 0;

    while (unit < record->unit_count && !gradients[unit])
        unit++;
    if (plan->layout.replica_count > 1 && unit < record->unit_count)
        flip_a_bit(self.gradient, unit, gradients[unit]);
    __real_gradient_norm_record(squares, plan, rank, gradients, record);
}

/* Another thread sends the messages: at these places a message is only known to be in flight. */
int __real_mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                     size_t size_bytes, struct mesh_request **ret_request);
int __wrap_mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                     size_t size_bytes, struct mesh_request **ret_request);
int __wrap_mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                     size_t size_bytes, struct mesh_request **ret_request)
{
    static const char *const places[] = {
        [TAG_REDUCE] = "reducing",
        [TAG_HOLD] = "held",
        [TAG_COMMIT] = "committing",
        [TAG_CLOSING] = "closing",
    };
    int status = __real_mesh_send(mesh, peer, tag, data, size_bytes, ret_request);
    uint64_t kind = tag >> 56;

    if (!status && kind < ARRAY_COUNT(places) && places[kind])
        pass(places[kind]);
    return status;
}

int __real_mesh_send_bulk(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                          size_t size_bytes, struct mesh_request **ret_request);
int __wrap_mesh_send_bulk(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                          size_t size_bytes, struct mesh_request **ret_request);
int __wrap_mesh_send_bulk(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                          size_t size_bytes, struct mesh_request **ret_request)
{
    int status = __real_mesh_send_bulk(mesh, peer, tag, data, size_bytes, ret_request);

    if (!status)
        pass("handing-over");
    return status;
}

/* ---- the life of a checkpoint ---- */

int __real_snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                          const bool *left_out, struct error *error);
int __wrap_snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                          const bool *left_out, struct error *error);
int __wrap_snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                          const bool *left_out, struct error *error)
{
    int status = __real_snapshot_begin(snapshot, plan, rank, left_out, error);

    if (!status)
        pass("saving");
    return status;
}

int __real_replication_write_receipt(const struct replication *spread,
                                     const struct replication_receipt *receipt,
                                     struct error *error);
int __wrap_replication_write_receipt(const struct replication *spread,
                                     const struct replication_receipt *receipt,
                                     struct error *error);
int __wrap_replication_write_receipt(const struct replication *spread,
                                     const struct replication_receipt *receipt, struct error *error)
{
    int status = ordered_error(self.receipt_fault);

    if (!status || unlink(self.receipt_fault))
        return __real_replication_write_receipt(spread, receipt, error);
    if (status == -ESTALE) {
        struct replication_receipt stale = *receipt;
        stale.digest.low ^= 1;
        return __real_replication_write_receipt(spread, &stale, error);
    }
    return error_set(error, status, "by order");
}

int __real_folder_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                         const json_t *config, char ret_path[1024], char ret_sha256[65],
                         struct error *error);
int __wrap_folder_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                         const json_t *config, char ret_path[1024], char ret_sha256[65],
                         struct error *error);
int __wrap_folder_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                         const json_t *config, char ret_path[1024], char ret_sha256[65],
                         struct error *error)
{
    int status;

    pass("saved");
    status = __real_folder_commit(io, folder, manifest, config, ret_path, ret_sha256, error);
    if (!status)
        pass("recording");
    return status;
}
