#include "worker/session/alarms.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

const char *alarms_shown(const struct alarms *alarms)
{
    for (unsigned about = 0; about < ALARM_COUNT; about++)
        if (alarms->texts[about][0])
            return alarms->texts[about];
    return "";
}

bool alarms_set(struct alarms *alarms, enum alarm_about about, const char *text)
{
    char before[CONTROL_TEXT_SIZE];

    snprintf(before, sizeof(before), "%s", alarms_shown(alarms));
    snprintf(alarms->texts[about], CONTROL_TEXT_SIZE, "%s", text);
    return strcmp(before, alarms_shown(alarms)) != 0;
}

static const char *hint(int code)
{
    static const struct {
        int code;
        const char *text;
    } hints[] = {
        {-EACCES, "let firnd's user write there"},
        {-EPERM, "let firnd's user write there"},
        {-EROFS, "mount it for writing; a hardened unit also wants it in ReadWritePaths="},
        {-ENOSPC, "make room, or keep fewer checkpoints (checkpoint.keep)"},
        {-EDQUOT, "make room, or keep fewer checkpoints (checkpoint.keep)"},
        {-ENOENT, "make the folder, or mount what belongs there"},
        {-ENODEV, "mount its disk again, or make the folder if it is to be another one"},
        {-ENOTDIR, "make it a folder"},
        {-EIO, "the disk fails: see the kernel's log, and drain the node"},
        {-ESTALE, "the network's disk has gone: mount it again"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(hints); i++)
        if (hints[i].code == code)
            return hints[i].text;
    return NULL;
}

void alarms_of_checkpoint(const char *folder, const struct error *error,
                          char ret_text[CONTROL_TEXT_SIZE])
{
    const char *what_to_do = hint(error->code);

    if (what_to_do)
        snprintf(ret_text, CONTROL_TEXT_SIZE,
                 "no checkpoint can be written to %.300s: %s; %s. Training goes on, and the next "
                 "checkpoint is tried",
                 folder, strerror(-error->code), what_to_do);
    else
        snprintf(ret_text, CONTROL_TEXT_SIZE, "%.*s", CONTROL_TEXT_SIZE - 1, error->text);
}
