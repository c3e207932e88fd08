#include "daemon/jobs/slot_alarms.h"

#include <stdio.h>
#include <string.h>

static bool is_out(const struct slot_alarms *alarms, const char *text)
{
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
        if (!strcmp(alarms->texts[slot], text))
            return true;
    return false;
}

const char *slot_alarms_shown(const struct slot_alarms *alarms)
{
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
        if (alarms->texts[slot][0])
            return alarms->texts[slot];
    return "";
}

bool slot_alarms_set(struct slot_alarms *alarms, unsigned slot, const char *text,
                     char ret_event[RECORD_TEXT_SIZE])
{
    char ended[RECORD_TEXT_SIZE];
    bool known = text[0] && is_out(alarms, text);

    memcpy(ended, alarms->texts[slot], sizeof(ended));
    snprintf(alarms->texts[slot], RECORD_TEXT_SIZE, "%s", text);
    if (text[0])
        snprintf(ret_event, RECORD_TEXT_SIZE, "%s", text);
    else
        snprintf(ret_event, RECORD_TEXT_SIZE, "alarm over: %.*s", RECORD_TEXT_SIZE - 16, ended);
    return text[0] ? !known : ended[0] && !slot_alarms_shown(alarms)[0];
}
