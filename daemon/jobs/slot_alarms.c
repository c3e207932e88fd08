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

const char *slot_alarms_told(const struct slot_alarms *alarms)
{
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
        if (alarms->texts[slot][0])
            return alarms->texts[slot];
    return "";
}

enum slot_alarms_news slot_alarms_set(struct slot_alarms *alarms, unsigned slot, const char *text)
{
    bool were_out = slot_alarms_told(alarms)[0] != '\0';
    bool known = text[0] && is_out(alarms, text);

    snprintf(alarms->texts[slot], RECORD_TEXT_SIZE, "%s", text);
    if (text[0])
        return known ? SLOT_ALARMS_NOTHING_NEW : SLOT_ALARMS_NEW;
    return were_out && !slot_alarms_told(alarms)[0] ? SLOT_ALARMS_OVER : SLOT_ALARMS_NOTHING_NEW;
}
