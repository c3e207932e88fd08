#include "daemon/core/ending.h"

#include "daemon/core/daemon.h"

#define GOODBYE_US 1000000

void ending_leave(struct daemon *daemon, int exit_code)
{
    daemon->ending.exit_code = exit_code;
    sd_event_exit(daemon->loop.event, exit_code);
}

static void on_deregistered(void *context)
{
    struct daemon *daemon = context;

    ending_leave(daemon, daemon->ending.exit_code);
}

static int on_goodbye_deadline(sd_event_source *source, uint64_t usec, void *context)
{
    (void)source;
    (void)usec;
    on_deregistered(context); /* the leases expire on their own */
    return 0;
}

/* Give up leadership and registration first, so that the other nodes need not wait for the
 * leases to expire. */
void ending_say_goodbye(struct daemon *daemon, int exit_code)
{
    struct registry *registry = daemon->node.registry;

    daemon->ending.exit_code = exit_code;
    if (!registry)
        return; /* called before */
    daemon->node.registry = NULL;
    election_stop(daemon->node.election);
    daemon->node.election = NULL;
    registry_stop(registry, on_deregistered, daemon);
    if (sd_event_add_time_relative(daemon->loop.event, NULL, CLOCK_MONOTONIC, GOODBYE_US, 0,
                                   on_goodbye_deadline, daemon) < 0)
        ending_leave(daemon, exit_code);
}
