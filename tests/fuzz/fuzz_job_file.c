/* Job files: YAML as a user writes it, then the schema. An accepted job comes back the same when
 * it is written to etcd and read there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/yaml/yaml_tree.h"
#include "elastic/job/job_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct job_spec spec, again; /* too large for a stack */

static void check(void)
{
    AUTO_JSON json_t *tree = job_spec_encode(&spec), *second = NULL;
    struct error error = {0};
    if (!tree)
        return;
    if (job_spec_decode(tree, "again", NULL, NULL, &again, &error) != 0)
        abort();
    second = job_spec_encode(&again);
    if (second && !json_equal(tree, second))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    int status = yaml_tree_parse((const char *)data, size, "job.yaml", &tree, &error);
    if (status != 0) {
        if (strncmp(error.text, "job.yaml:", 9) != 0)
            abort(); /* where? */
        return 0;
    }
    unsigned count = 0;
    status = job_spec_decode_from(yaml_tree_root(tree), "job.yaml", yaml_tree_line, tree, 0, &spec,
                                  &count, &error);
    if (status == 0)
        check();
    else if (strncmp(error.text, "job.yaml", 8) != 0)
        abort();
    yaml_tree_free(tree);
    return 0;
}
