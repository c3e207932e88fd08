/* firnd.yaml: accepted, or refused with a text that names the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/config.h"
#include "fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_file file = memory_file_make(data, size);
    char *arguments[] = {"firnd", "--config", file.path, "--worker", "/bin/true", NULL};
    struct config config;
    struct error error = {0};
    int status = config_load(5, arguments, &config, &error);

    if (status > 0 || (status < 0 && error.text[0] == '\0'))
        abort();
    if (status == 0 && (!name_valid(config.node) || !name_valid(config.cluster) ||
                        config.slots == 0 || config.link_port + config.slots > 65536))
        abort();
    memory_file_close(&file);
    return 0;
}
