#include "worker/device/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "comm/carrier/carrier_digest.h"
#include "worker/device/tags.h"

_Static_assert(ROUTES <= KERNEL_ROUTES_MAX, "each route has a queue of the device");

/* Messages of a party: the agreement, and the identities of its one or two communicators. */
enum party_message { MESSAGE_AGREEMENT, MESSAGE_IDENTITIES };

/* The members that agree, and the routes of the agreement; NULL ranks: no other member. */
struct party {
    const char *what;
    unsigned *ranks;
    unsigned member_count, self;
    enum route routes[2];
    unsigned route_count;
    bool nccl, digests;
};

enum { PARTY_REPLICAS, PARTY_BEFORE, PARTY_AFTER, PARTIES };

static struct carrier_group group_of(const struct routes_options *options,
                                     const struct party *party, unsigned message)
{
    return (struct carrier_group){.mesh = options->mesh,
                                  .ranks = party->ranks,
                                  .member_count = party->member_count,
                                  .self = party->self,
                                  .tag = tag_make(TAG_ROUTE, 0, message)};
}

/* ---- members of a route ---- */

static int list_replicas(const struct routes_options *options, struct party *party)
{
    const struct plan *plan = options->plan;
    unsigned stage = options->rank % plan->layout.stage_count;

    *party = (struct party){.what = "the replicas of its stage",
                            .member_count = plan->layout.replica_count,
                            .self = options->rank / plan->layout.stage_count,
                            .routes = {ROUTE_REDUCTION},
                            .route_count = 1};
    if (plan->layout.replica_count < 2)
        return 0;
    party->ranks = calloc(plan->layout.replica_count, sizeof(*party->ranks));
    for (unsigned i = 0; party->ranks && i < plan->layout.replica_count; i++)
        party->ranks[i] = plan_layout_rank(&plan->layout, i, stage);
    return party->ranks ? 0 : -ENOMEM;
}

/* List this worker and a neighbouring stage; the lower stage is the first member. */
static int list_pair(const struct routes_options *options, bool after, struct party *party)
{
    const struct plan *plan = options->plan;
    unsigned stage = options->rank % plan->layout.stage_count;
    bool exists = after ? stage + 1 < plan->layout.stage_count : stage > 0;

    *party = (struct party){.what = after ? "the stage after it" : "the stage before it",
                            .member_count = 2,
                            .self = after ? 0 : 1,
                            .routes = {after ? ROUTE_FORWARD_OUT : ROUTE_FORWARD_IN,
                                       after ? ROUTE_BACKWARD_IN : ROUTE_BACKWARD_OUT},
                            .route_count = 2};
    if (!exists)
        return 0;
    party->ranks = calloc(2, sizeof(*party->ranks));
    if (!party->ranks)
        return -ENOMEM;
    party->ranks[0] = after ? options->rank : options->rank - 1;
    party->ranks[1] = party->ranks[0] + 1;
    return 0;
}

/* ---- agreeing ---- */

static void tell_choice(const struct routes_options *options, const struct party *party,
                        const char *why)
{
    if (options->kernel->host_memory)
        return; /* NCCL was never an option */
    if (party->nccl)
        log_info("generation %llu: tensors between this worker and %s travel by NCCL%s",
                 (unsigned long long)options->plan->generation, party->what,
                 party->digests ? ", and their digests are compared" : "");
    else
        log_info("generation %llu: tensors between this worker and %s travel through the host: %s",
                 (unsigned long long)options->plan->generation, party->what, why);
}

static int agree(const struct routes_options *options, struct party *party, struct error *error)
{
    const struct carrier_group group = group_of(options, party, MESSAGE_AGREEMENT);
    char why[CARRIER_WHY_SIZE] = "";
    int status = carrier_agree(&group, &options->nccl->offer, &party->digests, why);

    if (status < 0)
        return error_set(error, status, "agreeing with %s on how tensors travel: the links broke",
                         party->what);
    party->nccl = status == 1;
    tell_choice(options, party, why);
    return 0;
}

/* ---- joining ---- */

/* Called from any thread. The process cannot recover: its device waits forever. */
static void end_process(void *context, const char *reason)
{
    (void)context;
    log_error("NCCL does not return, so this worker exits: %s", reason);
    _exit(EXIT_FAILURE);
}

static int open_clique(const struct routes_options *options, struct routes *routes)
{
    const struct nccl_clique_options clique = {
        .close_timeout_ns = TIMEOUTS_CARRIER_CLOSE * options->failure_timeout_ns,
        .abort_timeout_ns = TIMEOUTS_CARRIER_ABORT * options->failure_timeout_ns,
        .lost = carrier_nccl_lost,
        .hopeless = end_process,
        .context = options->mesh};

    return routes->clique ? 0 : nccl_clique_new(options->nccl->library, &clique, &routes->clique);
}

/* Wrap the carrier of @nccl in a carrier that compares the data on arrival. */
static int check_route(const struct party *party, const struct carrier_nccl_options *nccl,
                       struct routes *routes, enum route route, struct error *error)
{
    const struct carrier_digest_options options = {.carrier = routes->carriers[route],
                                                   .group = nccl->group,
                                                   .read = route_device_read,
                                                   .context = &routes->devices[route]};
    struct carrier *checked;
    int status = carrier_digest_new(&options, &checked);

    if (status) { /* the other members must not wait for this one */
        carrier_abort(routes->carriers[route], "no memory for digests");
        return error_set(error, status, "no memory for digests of what travels to %s", party->what);
    }
    routes->carriers[route] = routes->guard = checked;
    routes->digests[route] = true;
    return 0;
}

static int join_route(const struct routes_options *options, const struct party *party,
                      unsigned index, struct routes *routes, struct error *error)
{
    enum route route = party->routes[index];
    struct route_device *device = &routes->devices[route];
    int status = open_clique(options, routes);

    if (!status && !device->kernel)
        status = route_device_init(device, options->kernel, options->device,
                                   (enum kernel_queue)(KERNEL_QUEUE_ROUTES + route));
    if (status)
        return error_set(error, status, "no memory for NCCL");
    const struct carrier_nccl_options nccl = {
        .group = group_of(options, party, MESSAGE_IDENTITIES + index),
        .library = options->nccl->library,
        .clique = routes->clique,
        .device = route_device_table(device),
        .join_deadline_ns =
            clock_monotonic_ns() + TIMEOUTS_CARRIER_JOIN * options->failure_timeout_ns,
        .move_timeout_ns = TIMEOUTS_CARRIER_MOVE * options->failure_timeout_ns,
    };
    struct carrier *carrier;
    status = carrier_nccl_open(&nccl, &carrier, error);
    if (status)
        return status;
    routes->carriers[route] = routes->guard = carrier;
    return party->digests ? check_route(party, &nccl, routes, route, error) : 0;
}

/* All members have just agreed, so none of them is busy elsewhere when the others wait. */
static int open_party(const struct routes_options *options, struct party *party,
                      struct routes *routes, struct error *error)
{
    int status = party->ranks ? agree(options, party, error) : 0;

    for (unsigned i = 0; party->nccl && i < party->route_count && !status; i++) {
        status = join_route(options, party, i, routes, error);
        if (status == -ENOTSUP) { /* all members get this result: they all stay with the mesh */
            log_warning("tensors between this worker and %s travel through the host: %s",
                        party->what, error->text);
            *error = (struct error){0};
            status = 0;
        } else if (status == -EIO) {
            nccl_use_give_up(options->nccl, error->text);
        }
    }
    return status;
}

/* Open the parties of neighbours in two rounds, even stages with their next stage first: this
 * avoids circular waits, and a chain of waits through all stages. */
static int open_parties(const struct routes_options *options, struct party *parties,
                        struct routes *routes, struct error *error)
{
    bool even = options->rank % options->plan->layout.stage_count % 2 == 0;
    int status = list_replicas(options, &parties[PARTY_REPLICAS]);

    if (!status)
        status = list_pair(options, false, &parties[PARTY_BEFORE]);
    if (!status)
        status = list_pair(options, true, &parties[PARTY_AFTER]);
    if (status)
        return error_set(error, status, "no memory for the routes of a generation");
    status = open_party(options, &parties[PARTY_REPLICAS], routes, error);
    if (!status)
        status = open_party(options, &parties[even ? PARTY_AFTER : PARTY_BEFORE], routes, error);
    if (!status)
        status = open_party(options, &parties[even ? PARTY_BEFORE : PARTY_AFTER], routes, error);
    return status;
}

int routes_open(const struct routes_options *options, struct routes *ret_routes,
                struct error *error)
{
    struct party parties[PARTIES] = {0};
    int status;

    /* set before the carriers, which keep addresses of its devices */
    *ret_routes = (struct routes){.mesh = options->mesh};
    status = carrier_mesh_new(options->mesh, &ret_routes->over_mesh);
    ret_routes->guard = ret_routes->over_mesh;
    if (status)
        return error_set(error, status, "no memory for the routes of a generation");
    for (unsigned i = 0; i < ROUTES; i++)
        ret_routes->carriers[i] = ret_routes->over_mesh;
    status = open_parties(options, parties, ret_routes, error);
    for (unsigned i = 0; i < PARTIES; i++)
        free(parties[i].ranks);
    if (status)
        routes_close(ret_routes);
    return status;
}

/* Both ends of a route use one tag, for the receiving and the sending direction. */
static uint64_t digest_tag(enum route route, uint64_t step)
{
    static const unsigned ways[ROUTES] = {[ROUTE_FORWARD_IN] = 1,
                                          [ROUTE_FORWARD_OUT] = 1,
                                          [ROUTE_BACKWARD_IN] = 2,
                                          [ROUTE_BACKWARD_OUT] = 2};

    return tag_make(TAG_DIGEST, step, ways[route]);
}

int routes_compare(const struct routes *routes, uint64_t step)
{
    int status = 0;

    for (unsigned i = 0; i < ROUTES && !status; i++)
        if (routes->digests[i])
            status = carrier_digest_tell(routes->carriers[i], digest_tag((enum route)i, step));
    for (unsigned i = 0; i < ROUTES && !status; i++)
        if (routes->digests[i])
            status = carrier_digest_compare(routes->carriers[i], digest_tag((enum route)i, step));
    return status;
}

void routes_close(struct routes *routes)
{
    for (unsigned i = 0; i < ROUTES; i++)
        if (routes->carriers[i] != routes->over_mesh)
            carrier_free(routes->carriers[i]);
    nccl_clique_free(routes->clique);
    for (unsigned i = 0; i < ROUTES; i++)
        route_device_done(&routes->devices[i]);
    carrier_free(routes->over_mesh);
    *routes = (struct routes){0};
}
