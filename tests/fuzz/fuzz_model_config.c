/* config.json of a model: an accepted configuration is consistent. */
#include <stdlib.h>

#include "base/json.h"
#include "elastic/job/huggingface.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_JSON json_t *config = NULL;
    AUTO_JSON json_t *keys = NULL;
    struct error error;

    if (json_parse((const char *)data, size, "fuzz", &config, &error) == 0 &&
        huggingface_model(config, 4096, &keys, &error) == 0 &&
        huggingface_agree(keys, keys, &error) != 0)
        abort();
    return 0;
}
