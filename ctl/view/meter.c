#include "ctl/view/meter.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/size_words.h"
#include "ctl/view/format.h"

struct meter meter_begin(void)
{
    return (struct meter){.shown = isatty(STDERR_FILENO), .begun_ns = clock_monotonic_ns()};
}

void meter_progress(void *context, uint64_t done, uint64_t total)
{
    struct meter *meter = context;
    uint64_t now_ns = clock_monotonic_ns();
    char bar[FORMAT_BAR_SIZE], size[FORMAT_SIZE];

    meter->total = total;
    if (!meter->shown || (now_ns - meter->said_ns < 100 * NS_PER_MS && done < total))
        return;
    meter->said_ns = now_ns;
    format_bar((double)done / (double)MAX(total, 1ul), bar);
    if (meter->counted)
        fprintf(stderr, "\r│%s│ %s %s read ", bar, format_count((double)done, size),
                meter->counted);
    else
        fprintf(stderr, "\r│%s│ %s of it read ", bar, size_words(done, size));
    if (done == total)
        fprintf(stderr, "\r\033[K");
}
