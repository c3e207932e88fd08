#include "daemon/http/http_limiter.h"

#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"

#define NETWORK_BYTES 8 /* prefix of an IPv6 address: belongs to one subscriber */

void http_limiter_init(struct http_limiter *limiter, const struct http_limits *limits,
                       void (*dismiss)(struct http_visitor *visitor))
{
    *limiter = (struct http_limiter){.limits = limits, .dismiss = dismiss};
    TAILQ_INIT(&limiter->visitors);
}

/* ---- addresses ---- */

static struct http_address address_of(const struct sockaddr *socket)
{
    struct http_address address = {0};

    if (socket->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, socket, sizeof(four));
        memcpy(address.bytes, &four.sin_addr, sizeof(four.sin_addr));
        address.local = address.bytes[0] == IN_LOOPBACKNET;
    } else if (socket->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, socket, sizeof(six));
        address.local = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
        memcpy(address.bytes, &six.sin6_addr,
               address.local ? sizeof(six.sin6_addr) : NETWORK_BYTES);
    }
    return address;
}

static struct http_address *find_address(struct http_limiter *limiter,
                                         const struct sockaddr *socket)
{
    const struct http_address wanted = address_of(socket);
    struct http_address *unused = NULL;

    for (unsigned i = 0; i < HTTP_VISITORS_MAX; i++) {
        struct http_address *address = &limiter->addresses[i];
        if (address->users && !memcmp(address->bytes, wanted.bytes, sizeof(wanted.bytes)))
            return address;
        if (!address->users && !unused)
            unused = address;
    }
    assert(unused);
    *unused = wanted;
    return unused;
}

/* ---- eviction ---- */

static bool is_counted(const struct http_visitor *visitor)
{
    return visitor->visit == HTTP_VISIT_WAITS || visitor->visit == HTTP_VISIT_ANSWERS;
}

static void set_visit(struct http_limiter *limiter, struct http_visitor *visitor,
                      enum http_visit visit)
{
    int before = is_counted(visitor);

    visitor->visit = visit;
    int change = is_counted(visitor) - before;
    visitor->address->counted += (unsigned)change;
    limiter->counted += (unsigned)change;
}

/* Return the oldest connection in @visit, since @before_ns at the latest, of the address with
 * the most connections; @only: restrict the search to this address. NULL: none. */
static struct http_visitor *oldest_of_most(const struct http_limiter *limiter,
                                           enum http_visit visit, uint64_t before_ns,
                                           const struct http_address *only)
{
    struct http_visitor *best = NULL, *other;

    TAILQ_FOREACH(other, &limiter->visitors, entry)
    {
        if (other->visit != visit || other->since_ns > before_ns ||
            (only && only != other->address))
            continue;
        if (!best || other->address->counted > best->address->counted)
            best = other;
    }
    return best;
}

static void dismiss(struct http_limiter *limiter, struct http_visitor *visitor)
{
    set_visit(limiter, visitor, HTTP_VISIT_DISMISSED);
    visitor->deadline_ns = UINT64_MAX;
    limiter->dismiss(visitor);
}

/* Make room for one more connection of @address. Return true if there is room. */
static bool make_room(struct http_limiter *limiter, const struct http_address *address,
                      uint64_t now_ns)
{
    uint64_t before_ns = now_ns - MIN(now_ns, limiter->limits->grace_ns);
    bool address_full = !address->local && address->counted >= limiter->limits->per_address;

    if (!address_full && limiter->counted < limiter->limits->total)
        return true;
    struct http_visitor *loser =
        oldest_of_most(limiter, HTTP_VISIT_WAITS, before_ns, address_full ? address : NULL);
    if (!loser && !address_full) {
        loser = oldest_of_most(limiter, HTTP_VISIT_ANSWERS, now_ns, NULL);
        if (loser &&
            loser->address->counted <= address->counted + 1) /* eviction would be no fairer */
            loser = NULL;
    }
    if (loser)
        dismiss(limiter, loser);
    return loser;
}

static void limit_refused(struct http_limiter *limiter)
{
    unsigned refused = 0;
    struct http_visitor *visitor, *oldest = NULL;

    TAILQ_FOREACH(visitor, &limiter->visitors, entry)
    {
        if (visitor->visit != HTTP_VISIT_REFUSED)
            continue;
        oldest = oldest ? oldest : visitor;
        refused++;
    }
    if (refused >= limiter->limits->refused && oldest)
        dismiss(limiter, oldest);
}

void http_limiter_enter(struct http_limiter *limiter, struct http_visitor *visitor,
                        const struct sockaddr *address, uint64_t now_ns)
{
    visitor->address = find_address(limiter, address);
    visitor->address->users++;
    visitor->visit = HTTP_VISIT_REFUSED;
    visitor->since_ns = now_ns;
    if (make_room(limiter, visitor->address, now_ns))
        set_visit(limiter, visitor, HTTP_VISIT_WAITS);
    else
        limit_refused(limiter);
    visitor->deadline_ns = now_ns + limiter->limits->first_request_ns;
    TAILQ_INSERT_TAIL(&limiter->visitors, visitor, entry);
}

static void change(struct http_limiter *limiter, struct http_visitor *visitor,
                   enum http_visit visit, uint64_t now_ns, uint64_t wait_ns)
{
    if (!is_counted(visitor))
        return;
    set_visit(limiter, visitor, visit);
    visitor->since_ns = now_ns;
    visitor->deadline_ns = now_ns + wait_ns;
    TAILQ_REMOVE(&limiter->visitors, visitor, entry);
    TAILQ_INSERT_TAIL(&limiter->visitors, visitor, entry);
}

void http_limiter_answers(struct http_limiter *limiter, struct http_visitor *visitor,
                          uint64_t size_bytes, uint64_t now_ns)
{
    uint64_t seconds = size_bytes / limiter->limits->bytes_per_second;

    change(limiter, visitor, HTTP_VISIT_ANSWERS, now_ns,
           limiter->limits->answer_ns + seconds * NS_PER_SECOND);
}

void http_limiter_waits(struct http_limiter *limiter, struct http_visitor *visitor, uint64_t now_ns)
{
    change(limiter, visitor, HTTP_VISIT_WAITS, now_ns, limiter->limits->next_request_ns);
}

void http_limiter_leave(struct http_limiter *limiter, struct http_visitor *visitor)
{
    set_visit(limiter, visitor, HTTP_VISIT_DISMISSED);
    visitor->address->users--;
    TAILQ_REMOVE(&limiter->visitors, visitor, entry);
}

uint64_t http_limiter_expire(struct http_limiter *limiter, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    struct http_visitor *visitor;

    TAILQ_FOREACH(visitor, &limiter->visitors, entry)
    {
        if (visitor->deadline_ns <= now_ns)
            dismiss(limiter, visitor);
        next_ns = MIN(next_ns, visitor->deadline_ns);
    }
    return next_ns;
}
