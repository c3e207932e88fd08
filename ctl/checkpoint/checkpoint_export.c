/* firnctl checkpoint export. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/size_words.h"
#include "checkpoint/read/export.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/checkpoint/record_change.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"
#include "ctl/view/meter.h"

static int take_dtype(const struct arguments *arguments, enum safetensors_dtype *ret_dtype,
                      struct error *error)
{
    const char *text = arguments_text(arguments, "dtype", "f32");

    if (!strcmp(text, "f32"))
        *ret_dtype = SAFETENSORS_F32;
    else if (!strcmp(text, "bf16"))
        *ret_dtype = SAFETENSORS_BF16;
    else
        return error_set(error, COMMAND_USAGE, "--dtype is f32 or bf16, not \"%s\"", text);
    return 0;
}

/* Return whether @status may mean damage; other errors may come from the destination folder. */
static bool may_be_damage(int status)
{
    return status == -EBADMSG;
}

int run_checkpoint_export(const struct arguments *arguments, struct error *error)
{
    CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
    struct meter meter = meter_begin();
    struct checkpoint_export export = {.from = place.path,
                                       .to = arguments->operands[1],
                                       .progress = meter_progress,
                                       .context = &meter};
    char size[FORMAT_SIZE], took[FORMAT_SIZE];
    struct checkpoint_source source = {
        .folder = place.path, .node = "", .manifest_sha256 = place.manifest_sha256};
    int status = take_dtype(arguments, &export.dtype, error);

    if (!status)
        status = checkpoint_find(arguments, &place, error);
    if (!status && place.remote) {
        source.remote = place.remote;
        export.source = &source;
    }
    if (!status) {
        status = checkpoint_export(&export, error);
        if (status && may_be_damage(status))
            record_note_damage(arguments, &place, status, error->text);
    }
    if (!status)
        printf("%s is exported to %s: %s in %s\n", place.path, export.to,
               size_words(meter.total, size),
               format_duration((double)(clock_monotonic_ns() - meter.begun_ns) / 1e9, took));
    return status;
}
