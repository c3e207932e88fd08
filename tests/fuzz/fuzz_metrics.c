/* Lines of metrics: as a worker finds them on its disk or gets them from another node, and as
 * firnctl reads them from nodes. Kept lines are in the order of their steps. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "ctl/cluster/history.h"
#include "fuzz/memory_file.h"
#include "worker/metrics/metrics.h"
#include "worker/metrics/metrics_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_history(const uint8_t *data, size_t size)
{
    struct history history = {0};
    struct error error = {0};
    size_t half = size / 2;
    bool refused = history_add(&history, "a", (const char *)data, half, NULL, &error) != 0;
    refused |=
        history_add(&history, "b", (const char *)data + half, size - half, NULL, &error) != 0;
    refused |= history_add(&history, "c", (const char *)data, size, NULL, &error) != 0;
    if (refused && error.text[0] == '\0')
        abort();
    for (size_t i = 1; i < history.count; i++)
        if (history.steps[i - 1].step >= history.steps[i].step)
            abort();
    if (history.count > 0 && history_find(&history, history.steps[0].step) != 0)
        abort();
    history_done(&history);
}

static void check_file(const uint8_t *data, size_t size)
{
    static char path[64];
    struct metrics *metrics;
    struct error error = {0};
    if (path[0] == '\0') {
        snprintf(path, sizeof(path), "/dev/shm/firn-fuzz-metrics-%d", (int)getpid());
        log_set_level(LOG_LEVEL_ERROR);
    }
    int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0 || write(descriptor, data, size / 2) != (ssize_t)(size / 2))
        abort();
    close(descriptor);
    if (metrics_open(path, &metrics, &error) == 0) {
        struct bytes text = {0};
        if (metrics_adopt(metrics, data + size / 2, size - size / 2, &error) != 0 &&
            error.text[0] == '\0')
            abort();
        if (metrics_history(metrics, UINT64_MAX, &text, &error) == 0 && text.size_bytes > 0 &&
            metrics_text_newest(text.data, text.size_bytes) != metrics_last_step(metrics))
            abort();
        bytes_done(&text);
        metrics_close(metrics);
    }
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)metrics_text_newest(data, size);
    if (metrics_text_cut(data, size, 7) > size)
        abort();
    check_history(data, size);
    check_file(data, size);
    return 0;
}
