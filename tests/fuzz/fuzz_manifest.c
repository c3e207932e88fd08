/* Manifests: an accepted manifest stays inside its files and comes back the same when written
 * again. */
#include <stdlib.h>

#include "base/json.h"
#include "checkpoint/format/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct manifest *manifest)
{
    struct manifest again;
    json_t *tree = manifest_encode(manifest);
    if (!tree)
        return;
    if (manifest_decode(tree, "again", &again, NULL) != 0)
        abort();
    json_t *second = manifest_encode(&again);
    if (second && !json_equal(tree, second))
        abort();
    for (size_t i = 0; i < manifest->file_count; i++) {
        if (!manifest_file_valid(manifest->files[i].name))
            abort();
    }
    json_decref(tree);
    json_decref(second);
    manifest_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest manifest;
    struct error error;
    json_t *tree;
    if (manifest_parse((const char *)data, size, "fuzz", &manifest, &error) == 0) {
        check(&manifest);
        manifest_done(&manifest);
    }
    if (json_parse((const char *)data, size, "fuzz", &tree, &error) != 0)
        return 0;
    if (manifest_decode(tree, "fuzz", &manifest, &error) == 0) {
        check(&manifest);
        manifest_done(&manifest);
    }
    json_decref(tree);
    return 0;
}
