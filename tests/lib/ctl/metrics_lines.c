#include "lib/ctl/metrics_lines.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bits.h"

size_t metrics_line(const struct line_values *values, char *text)
{
    char bits[BITS64_TEXT_SIZE], val_bits[BITS64_TEXT_SIZE], val[128] = "", final[128] = "";

    bits64_text(values->loss, bits);
    bits64_text(values->val_loss, val_bits);
    if (values->val_loss != 0)
        snprintf(val, sizeof(val), ",\"val_loss\":%.9g,\"val_loss_bits\":\"%s\"", values->val_loss,
                 val_bits);
    bits64_text(values->final_loss, val_bits);
    if (values->final_loss != 0)
        snprintf(final, sizeof(final), ",\"final_val_loss\":%.9g,\"final_val_loss_bits\":\"%s\"",
                 values->final_loss, val_bits);
    return (size_t)snprintf(
        text, 600,
        "{\"job\":\"j\",\"step\":%" PRIu64 ",\"loss\":%.9g,\"loss_bits\":\"%s\",\"grad_norm\":1.5,"
        "\"grad_norm_bits\":\"3ff8000000000000\",\"lr\":0.001,\"frozen_layers\":%u,"
        "\"generation\":%" PRIu64 ",\"stages\":%u,\"replicas\":%u,\"workers\":%u,"
        "\"tokens\":%" PRIu64 ",\"step_ms\":10.5,\"unix_ns\":%" PRIu64 "%s%s}\n",
        values->step, values->loss, bits, values->frozen_layers,
        values->generation ? values->generation : 1, values->stages ? values->stages : 1,
        values->replicas ? values->replicas : 2, 2u, values->step * 100, values->unix_ns, val,
        final);
}
