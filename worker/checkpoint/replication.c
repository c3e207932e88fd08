#include "worker/checkpoint/replication.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_place.h"
#include "checkpoint/replicate/receive.h"
#include "worker/checkpoint/part_file.h"

#define NOTE_MAX    ((size_t)1 << 20)
#define RECEIPT     "copies.json"
#define SEAL        "sealed.json"
#define PLACED      "placed"
#define LOOK_MIN_NS (NS_PER_SECOND / 100)
#define LOOK_MAX_NS (NS_PER_SECOND / 5)
#define TRIES_MAX   5 /* to fetch one share whose node does not answer */

/* ---- start and end ---- */

int replication_remote(const struct plan *plan, uint64_t timeout_ns, const atomic_bool *stop,
                       struct checkpoint_remote **ret_remote, struct error *error)
{
    AUTO_FREE struct checkpoint_remote_node *nodes =
        calloc((size_t)plan->checkpoints.copy_node_count + 1, sizeof(*nodes));
    struct checkpoint_remote_options options = {.job = plan->job,
                                                .nodes = nodes,
                                                .node_count = plan->checkpoints.copy_node_count,
                                                .timeout_ns = timeout_ns,
                                                .stop = stop};

    static_assert(CHECKPOINT_KEY_SIZE == PLAN_KEY_SIZE, "files are proved under the links' key");
    if (!nodes)
        return error_set(error, -ENOMEM, "no memory to reach other nodes' checkpoints");
    if (!plan_key_bytes(plan->links.key, options.key))
        return error_set(error, -EINVAL, "the plan of generation %" PRIu64 " has no link key",
                         plan->generation);
    for (unsigned i = 0; i < plan->checkpoints.copy_node_count; i++) {
        memcpy(nodes[i].name, plan->checkpoints.copy_nodes[i].node, sizeof(nodes[i].name));
        memcpy(nodes[i].http, plan->checkpoints.copy_nodes[i].http, sizeof(nodes[i].http));
    }
    return checkpoint_remote_new(&options, ret_remote, error);
}

int replication_new(const struct replication_options *options, struct replication **ret_spread,
                    struct error *error)
{
    struct replication *replication = calloc(1, sizeof(*replication));
    int self, status;

    if (replication)
        replication->plan = plan_copy(options->plan);
    if (!replication || !replication->plan) {
        replication_free(replication);
        return error_set(error, -ENOMEM, "no memory for the copies of a checkpoint");
    }
    copies_leave_out(replication->plan, options->left_out);
    self = copies_find(&replication->plan->checkpoints, options->node);
    assert(self >= 0); /* plan_check(): the node of every worker is a copy node */
    snprintf(replication->node, sizeof(replication->node), "%s", options->node);
    snprintf(replication->folder, sizeof(replication->folder), "%s", options->folder);
    replication->self = (unsigned)self;
    replication->writer_count = copies_writer_count(replication->plan);
    replication->step = options->step;
    replication->timeout_ns = options->timeout_ns;
    status = replication_remote(replication->plan, options->timeout_ns, &replication->stop,
                                &replication->remote, error);
    if (status) {
        replication_free(replication);
        return status;
    }
    replication->local = (struct checkpoint_local){.io = options->io,
                                                   .folder = replication->folder,
                                                   .node = replication->node,
                                                   .step = replication->step,
                                                   .generation = replication->plan->generation,
                                                   .remote = replication->remote};
    *ret_spread = replication;
    return 0;
}

void replication_free(struct replication *replication)
{
    if (!replication)
        return;
    checkpoint_remote_free(replication->remote);
    plan_free(replication->plan);
    free(replication);
}

/* ---- files with one fact ---- */

unsigned replication_copy_node(const struct replication *replication, unsigned rank)
{
    return (unsigned)copies_find(&replication->plan->checkpoints,
                                 replication->plan->layout.workers[rank].node);
}

static void part_folder(const struct replication *replication, char ret_path[1024])
{
    checkpoint_part_path(replication->folder, replication->step, replication->plan->generation,
                         ret_path);
}

void replication_path(const struct replication *replication, const char *file,
                      char ret_path[JOB_PATH_SIZE + 64])
{
    char folder[1024];

    part_folder(replication, folder);
    snprintf(ret_path, JOB_PATH_SIZE + 64, "%s/%s", folder, file);
}

/* Read a file of @copy_node's part folder, or of its finished folder. */
static int read_note(struct replication *replication, unsigned copy_node, bool finished,
                     const char *file, size_t size_max, struct bytes *text, struct error *error)
{
    char folder[1024], path[JOB_PATH_SIZE + 64];

    if (finished)
        checkpoint_path(replication->folder, replication->step, folder);
    else
        part_folder(replication, folder);
    if (copy_node != replication->self)
        return checkpoint_remote_get(replication->remote,
                                     replication->plan->checkpoints.copy_nodes[copy_node].node,
                                     strrchr(folder, '/') + 1, file, size_max, text, error);
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return file_read(path, size_max, text, error);
}

/* Poll until the file exists: waiting costs the other node occasional requests. */
static int await_note(struct replication *replication, unsigned copy_node, bool finished,
                      const char *file, uint64_t deadline_ns, json_t **ret_tree,
                      struct error *error)
{
    uint64_t pause_ns = LOOK_MIN_NS;

    for (;;) {
        struct bytes text = {0};
        struct error why = {0};
        int status = read_note(replication, copy_node, finished, file, NOTE_MAX, &text, &why);
        if (!status)
            status = json_parse((const char *)text.data, text.size_bytes, file, ret_tree, error);
        else if (status != -ENOENT && status != -EHOSTUNREACH)
            error_set(error, status, "%s", why.text);
        bytes_done(&text);
        if (status != -ENOENT && status != -EHOSTUNREACH)
            return status;
        if (atomic_load(&replication->stop))
            return error_set(error, -ECANCELED, "the checkpoint was given up");
        if (clock_monotonic_ns() > deadline_ns)
            return error_set(error, -ETIMEDOUT, "node %s does not finish its part: %s",
                             replication->plan->checkpoints.copy_nodes[copy_node].node, why.text);
        const struct timespec pause = {0, (long)pause_ns};
        nanosleep(&pause, NULL);
        pause_ns = MIN(2 * pause_ns, (uint64_t)LOOK_MAX_NS);
    }
}

static int write_note(const char *path, json_t *tree, struct error *error)
{
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    if (!text)
        return error_set(error, -ENOMEM, "no memory for %s", path);
    return file_replace(path, text, strlen(text), 0644, error);
}

void replication_add_digest(struct hash128 *sum, struct hash128 digest)
{
    sum->high ^= digest.high;
    sum->low ^= digest.low;
}

int replication_part(struct replication *replication, unsigned rank, struct manifest *ret_part,
                     struct hash128 *ret_digest, struct error *error)
{
    struct bytes text = {0};
    char name[PART_FILE_NAME_SIZE];
    int status;

    part_file_name(rank, name);
    status = read_note(replication, replication_copy_node(replication, rank), false, name,
                       PART_FILE_MAX, &text, error);
    if (!status)
        status = part_file_decode(&text, name, ret_part, error);
    if (!status)
        *ret_digest = hash_xxh3(text.data, text.size_bytes);
    bytes_done(&text);
    return status;
}

/* ---- copies ---- */

/* If the nodes shared one folder, each node would rename it while the others use it. */
static int check_own_folder(const struct replication *replication, unsigned rank,
                            struct error *error)
{
    char name[PART_FILE_NAME_SIZE], path[JOB_PATH_SIZE + 64];

    part_file_name(rank, name);
    replication_path(replication, name, path);
    if (access(path, F_OK))
        return 0;
    return error_set(error, -EEXIST,
                     "%s is node %s's, too: with checkpoint.copies above 1 every node needs a "
                     "checkpoint folder of its own (another checkpoint.path, or copies: 1)",
                     replication->folder, replication->plan->layout.workers[rank].node);
}

static int receive_rank(struct replication *replication, unsigned rank, struct hash128 *ret_digest,
                        struct error *error)
{
    struct manifest part = {0};
    int status = replication_part(replication, rank, &part, ret_digest, error);

    if (!status)
        status = checkpoint_receive_share(
            &replication->local, replication->plan->layout.workers[rank].node, &part, error);
    manifest_done(&part);
    return status;
}

bool replication_tries_again(const struct replication *replication, int status, unsigned *tries)
{
    const struct timespec pause = {(time_t)(replication->timeout_ns / NS_PER_SECOND),
                                   (long)(replication->timeout_ns % NS_PER_SECOND)};

    if (status != -EHOSTUNREACH || ++*tries == TRIES_MAX || atomic_load(&replication->stop))
        return false;
    nanosleep(&pause, NULL);
    return true;
}

static int receive_patiently(struct replication *replication, unsigned rank,
                             struct hash128 *ret_digest, struct error *error)
{
    int status = check_own_folder(replication, rank, error);
    unsigned tries = 0;

    if (status)
        return status;
    do
        status = receive_rank(replication, rank, ret_digest, error);
    while (replication_tries_again(replication, status, &tries));
    return status;
}

static int receive_share(struct replication *replication, unsigned copy_node,
                         struct hash128 *ret_digest, struct error *error)
{
    struct hash128 digest, sum = {0};
    int status = 0;

    for (unsigned rank = 0; !status && rank < replication->plan->layout.worker_count; rank++) {
        if (replication_copy_node(replication, rank) != copy_node)
            continue;
        status = receive_patiently(replication, rank, &digest, error);
        if (!status)
            replication_add_digest(&sum, digest);
    }
    *ret_digest = sum;
    return status;
}

static bool is_target(const struct replication *replication, unsigned copy_node)
{
    unsigned targets[COPIES_MAX - 1];
    unsigned count = copies_targets(replication->plan, copy_node, targets);

    for (unsigned i = 0; i < count; i++)
        if (targets[i] == replication->self)
            return true;
    return false;
}

int replication_receive(struct replication *replication, struct replication_receipt *ret_receipt,
                        struct error *error)
{
    memset(ret_receipt, 0, sizeof(*ret_receipt));
    ret_receipt->has_digest = true;
    for (unsigned copy_node = 0; copy_node < replication->writer_count; copy_node++) {
        struct hash128 digest;
        struct error why = {0};
        if (!is_target(replication, copy_node))
            continue;
        int status = receive_share(replication, copy_node, &digest, &why);
        if (atomic_load(&replication->stop))
            status = -ECANCELED;
        if (status == -ECANCELED || status == -EEXIST || status == -ENOMEM)
            return error_set(error, status, "%s", why.text);
        ret_receipt->has[copy_node] = !status;
        if (!status)
            replication_add_digest(&ret_receipt->digest, digest);
        if (status && !ret_receipt->problem[0])
            snprintf(ret_receipt->problem, sizeof(ret_receipt->problem), "%.255s", why.text);
    }
    return 0;
}

int replication_write_receipt(const struct replication *replication,
                              const struct replication_receipt *receipt, struct error *error)
{
    char path[JOB_PATH_SIZE + 64], digest[HASH128_TEXT_SIZE];
    json_t *names = json_array();

    hash128_text(receipt->digest, digest);
    AUTO_JSON json_t *tree = json_pack("{s:o, s:s, s:s}", "shares_of", names, "problem",
                                       receipt->problem, "parts_digest", digest);

    for (unsigned i = 0; tree && i < replication->writer_count; i++)
        if (receipt->has[i] &&
            json_array_append_new(names,
                                  json_string(replication->plan->checkpoints.copy_nodes[i].node)))
            return error_set(error, -ENOMEM, "no memory for " RECEIPT);
    replication_path(replication, RECEIPT, path);
    return write_note(path, tree, error);
}

int replication_await_receipt(struct replication *replication, unsigned copy_node,
                              uint64_t deadline_ns, struct replication_receipt *ret_receipt,
                              struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    json_t *names;
    int status = await_note(replication, copy_node, false, RECEIPT, deadline_ns, &tree, error);

    memset(ret_receipt, 0, sizeof(*ret_receipt));
    if (!status)
        status = json_get_array(tree, "shares_of", PLAN_COPY_NODES_MAX, &names, error);
    if (!status)
        status = json_get_text(tree, "problem", ret_receipt->problem, sizeof(ret_receipt->problem),
                               error);
    for (size_t i = 0; !status && i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        int found = name ? copies_find(&replication->plan->checkpoints, name) : -1;
        if (found < 0)
            return error_set(error, -EBADMSG, RECEIPT " of node %s names a node of no part here",
                             replication->plan->checkpoints.copy_nodes[copy_node].node);
        ret_receipt->has[found] = true;
    }
    const char *digest = json_string_value(json_object_get(tree, "parts_digest"));
    if (!status && digest && !hash128_parse(digest, &ret_receipt->digest))
        return error_set(error, -EBADMSG, RECEIPT " of node %s has no digest but \"%.40s\"",
                         replication->plan->checkpoints.copy_nodes[copy_node].node, digest);
    ret_receipt->has_digest = digest;
    return status;
}

/* ---- seal and name ---- */

static json_t *encode_seal(const struct replication_seal *seal)
{
    char digest[HASH128_TEXT_SIZE];

    hash128_text(seal->digest, digest);
    return json_pack("{s:s, s:s}", "manifest_sha256", seal->sha256, "state_digest", digest);
}

static int decode_seal(const json_t *tree, struct replication_seal *ret_seal, struct error *error)
{
    char digest[HASH128_TEXT_SIZE];
    int status =
        json_get_text(tree, "manifest_sha256", ret_seal->sha256, sizeof(ret_seal->sha256), error);

    if (!status)
        status = json_get_text(tree, "state_digest", digest, sizeof(digest), error);
    if (!status && !hash128_parse(digest, &ret_seal->digest))
        status = error_set(error, -EBADMSG, "state_digest is malformed");
    return status;
}

int replication_write_seal(const struct replication *replication,
                           const struct replication_seal *seal, struct error *error)
{
    AUTO_JSON json_t *tree = encode_seal(seal);
    char path[JOB_PATH_SIZE + 64];

    replication_path(replication, SEAL, path);
    return write_note(path, tree, error);
}

int replication_await_seal(struct replication *replication, struct replication_seal *ret_seal,
                           struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    int status = await_note(replication, 0, false, SEAL, UINT64_MAX, &tree, error);

    return status ? status : decode_seal(tree, ret_seal, error);
}

static void remove_notes(const struct replication *replication)
{
    char path[JOB_PATH_SIZE + 64], name[PART_FILE_NAME_SIZE];

    for (unsigned rank = 0; rank < replication->plan->layout.worker_count; rank++) {
        part_file_name(rank, name);
        replication_path(replication, name, path);
        unlink(path);
    }
    replication_path(replication, RECEIPT, path);
    unlink(path);
    replication_path(replication, SEAL, path);
    unlink(path);
}

int replication_place(struct replication *replication, const struct replication_seal *seal,
                      char ret_path[1024], struct error *error)
{
    AUTO_JSON json_t *tree = encode_seal(seal);
    char path[JOB_PATH_SIZE + 64];
    int status;

    remove_notes(replication);
    status = checkpoint_place(&replication->local, seal->digest, ret_path, error);
    if (status)
        return status;
    snprintf(path, sizeof(path), "%s/" PLACED, ret_path);
    return write_note(path, tree, error);
}

int replication_await_placed(struct replication *replication, unsigned copy_node,
                             const struct replication_seal *seal, uint64_t deadline_ns,
                             struct error *error)
{
    const struct timespec pause = {0, LOOK_MIN_NS};

    for (;;) {
        AUTO_JSON json_t *tree = NULL;
        struct replication_seal placed;
        int status = await_note(replication, copy_node, true, PLACED, deadline_ns, &tree, error);
        if (!status)
            status = decode_seal(tree, &placed, error);
        if (status)
            return status;
        if (!strcmp(placed.sha256, seal->sha256))
            return 0;
        /* The file is of an earlier attempt at this step. */
        if (atomic_load(&replication->stop) || clock_monotonic_ns() > deadline_ns)
            return error_set(error, -ETIMEDOUT, "node %s has another checkpoint of step %" PRIu64,
                             replication->plan->checkpoints.copy_nodes[copy_node].node,
                             replication->step);
        nanosleep(&pause, NULL);
    }
}
