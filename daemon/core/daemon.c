#include "daemon/core/daemon.h"

void daemon_wake(struct daemon *daemon)
{
    sd_event_source_set_enabled(daemon->reconcile, SD_EVENT_ONESHOT);
}
