#include "lib/checkpoint/two_nodes.h"

#include <string.h>

#include "base/clock.h"

void two_nodes_start(struct two_nodes *nodes)
{
    struct checkpoint_remote_options options = {.job = "sample", .timeout_ns = NS_PER_SECOND / 5};
    struct checkpoint_remote_node both[2];
    for (unsigned i = 0; i < 2; i++) {
        sample_folder(nodes->folders[i]);
        file_server_start(&nodes->servers[i], i == 0 ? "a" : "b", nodes->folders[i]);
        both[i] = nodes->servers[i].node;
    }
    memcpy(options.key, nodes->servers[0].key, sizeof(options.key));
    options.nodes = both;
    options.node_count = 2;
    assert(checkpoint_remote_new(&options, &nodes->remote, NULL) == 0);
}

void two_nodes_stop(struct two_nodes *nodes)
{
    checkpoint_remote_free(nodes->remote);
    for (unsigned i = 0; i < 2; i++) {
        file_server_stop(&nodes->servers[i]);
        sample_remove(nodes->folders[i]);
    }
}

struct checkpoint_local two_nodes_local(const struct two_nodes *nodes, unsigned node,
                                        const struct io *io, uint64_t step)
{
    return (struct checkpoint_local){.io = io,
                                     .folder = nodes->folders[node],
                                     .node = node == 0 ? "a" : "b",
                                     .step = step,
                                     .generation = 1,
                                     .remote = nodes->remote};
}

static int two_nodes_write(const struct two_nodes *nodes, unsigned node, const struct io *io,
                           uint64_t step, struct manifest *ret_part, struct error *error)
{
    struct sample sample;
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    struct checkpoint_writer *writer = sample_writer(io, 4096);
    sample_init(&sample, step);
    struct checkpoint_share share =
        sample_share(&sample, nodes->folders[node], step, node, 2, tensors);
    int status = checkpoint_writer_begin(writer, &share);
    assert(status == 0);
    checkpoint_writer_release_wait(writer);
    status = checkpoint_writer_wait(writer, UINT64_MAX / 2, ret_part, error);
    checkpoint_writer_stop(writer);
    sample_done(&sample);
    return status == 1 ? 0 : status;
}

/* Make the manifest of both parts; @copied: both nodes have both shares. */
static int two_nodes_manifest(const struct manifest parts[2], bool copied, uint64_t step,
                              struct manifest *ret_manifest, struct error *error)
{
    struct sample sample;
    sample_init(&sample, step);
    int status = 0;
    for (unsigned i = 0; status == 0 && i < 2; i++) {
        const char names[2][NAME_SIZE] = {{(char)('a' + i)}, {(char)('b' - i)}};
        size_t first = ret_manifest->file_count;
        status = manifest_merge(ret_manifest, &parts[i], error);
        for (size_t k = first; status == 0 && k < ret_manifest->file_count; k++)
            status = manifest_name_nodes(&ret_manifest->files[k], names, copied ? 2 : 1);
    }
    ret_manifest->spec = json_pack("{s:s}", "name", "sample");
    ret_manifest->state = json_pack("{s:{s:i}}", "freeze", "frozen_layers", 1);
    if (status == 0)
        status = manifest_seal(ret_manifest, sample.count, error);
    sample_done(&sample);
    return status;
}

int two_nodes_save(struct two_nodes *nodes, const struct io *io, uint64_t step, struct error *error)
{
    struct checkpoint_local a = two_nodes_local(nodes, 0, io_threads_table(), step);
    struct checkpoint_local b = two_nodes_local(nodes, 1, io, step);
    struct manifest parts[2], manifest = {0};
    char path[1024];
    json_t *config = json_pack("{s:s}", "model_type", "gpt2");
    memset(parts, 0, sizeof(parts));
    int status = two_nodes_write(nodes, 0, a.io, step, &parts[0], error);
    if (status == 0)
        status = two_nodes_write(nodes, 1, io, step, &parts[1], error);
    if (status == 0)
        status = checkpoint_receive_share(&b, "a", &parts[0], error);
    if (status == 0)
        status = checkpoint_receive_share(&a, "b", &parts[1], error);
    if (status == 0)
        status = two_nodes_manifest(parts, true, step, &manifest, error);
    if (status == 0)
        status = folder_commit_copies(&a, &manifest, config, nodes->sha256, error);
    if (status == 0)
        status = checkpoint_take_manifest(&b, "a", nodes->sha256, error);
    if (status == 0)
        status = checkpoint_place(&b, manifest.state_digest, path, error);
    if (status == 0)
        status = checkpoint_place(&a, manifest.state_digest, path, error);
    json_decref(config);
    for (unsigned i = 0; i < 2; i++)
        manifest_done(&parts[i]);
    manifest_done(&manifest);
    return status;
}
