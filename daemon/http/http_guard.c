#include "daemon/http/http_guard.h"

#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"

#define NETWORK_BYTES 8 /* prefix of an IPv6 address: belongs to one subscriber */

void http_guard_init(struct http_guard *guard, const struct http_guard_limits *limits,
                     void (*dismiss)(struct http_visitor *visitor))
{
    *guard = (struct http_guard){.limits = limits, .dismiss = dismiss};
    TAILQ_INIT(&guard->visitors);
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

static struct http_address *find_address(struct http_guard *guard, const struct sockaddr *socket)
{
    const struct http_address wanted = address_of(socket);
    struct http_address *unused = NULL;

    for (unsigned i = 0; i < HTTP_VISITORS_MAX; i++) {
        struct http_address *address = &guard->addresses[i];
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

static void set_visit(struct http_guard *guard, struct http_visitor *visitor, enum http_visit visit)
{
    int before = is_counted(visitor);

    visitor->visit = visit;
    int change = is_counted(visitor) - before;
    visitor->address->counted += (unsigned)change;
    guard->counted += (unsigned)change;
}

/* Return the oldest connection in @visit, since @before_ns at the latest, of the address with
 * the most connections; @only: restrict the search to this address. NULL: none. */
static struct http_visitor *oldest_of_most(const struct http_guard *guard, enum http_visit visit,
                                           uint64_t before_ns, const struct http_address *only)
{
    struct http_visitor *best = NULL, *other;

    TAILQ_FOREACH(other, &guard->visitors, entry)
    {
        if (other->visit != visit || other->since_ns > before_ns ||
            (only && only != other->address))
            continue;
        if (!best || other->address->counted > best->address->counted)
            best = other;
    }
    return best;
}

static void dismiss(struct http_guard *guard, struct http_visitor *visitor)
{
    set_visit(guard, visitor, HTTP_VISIT_DISMISSED);
    visitor->deadline_ns = UINT64_MAX;
    guard->dismiss(visitor);
}

/* Make room for one more connection of @address. Return true if there is room. */
static bool make_room(struct http_guard *guard, const struct http_address *address, uint64_t now_ns)
{
    uint64_t before_ns = now_ns - MIN(now_ns, guard->limits->grace_ns);
    bool address_full = !address->local && address->counted >= guard->limits->per_address;

    if (!address_full && guard->counted < guard->limits->total)
        return true;
    struct http_visitor *loser =
        oldest_of_most(guard, HTTP_VISIT_WAITS, before_ns, address_full ? address : NULL);
    if (!loser && !address_full) {
        loser = oldest_of_most(guard, HTTP_VISIT_ANSWERS, now_ns, NULL);
        if (loser &&
            loser->address->counted <= address->counted + 1) /* eviction would be no fairer */
            loser = NULL;
    }
    if (loser)
        dismiss(guard, loser);
    return loser;
}

static void limit_refused(struct http_guard *guard)
{
    unsigned refused = 0;
    struct http_visitor *visitor, *oldest = NULL;

    TAILQ_FOREACH(visitor, &guard->visitors, entry)
    {
        if (visitor->visit != HTTP_VISIT_REFUSED)
            continue;
        oldest = oldest ? oldest : visitor;
        refused++;
    }
    if (refused >= guard->limits->refused && oldest)
        dismiss(guard, oldest);
}

void http_guard_enter(struct http_guard *guard, struct http_visitor *visitor,
                      const struct sockaddr *address, uint64_t now_ns)
{
    visitor->address = find_address(guard, address);
    visitor->address->users++;
    visitor->visit = HTTP_VISIT_REFUSED;
    visitor->since_ns = now_ns;
    if (make_room(guard, visitor->address, now_ns))
        set_visit(guard, visitor, HTTP_VISIT_WAITS);
    else
        limit_refused(guard);
    visitor->deadline_ns = now_ns + guard->limits->first_request_ns;
    TAILQ_INSERT_TAIL(&guard->visitors, visitor, entry);
}

static void change(struct http_guard *guard, struct http_visitor *visitor, enum http_visit visit,
                   uint64_t now_ns, uint64_t wait_ns)
{
    if (!is_counted(visitor))
        return;
    set_visit(guard, visitor, visit);
    visitor->since_ns = now_ns;
    visitor->deadline_ns = now_ns + wait_ns;
    TAILQ_REMOVE(&guard->visitors, visitor, entry);
    TAILQ_INSERT_TAIL(&guard->visitors, visitor, entry);
}

void http_guard_answers(struct http_guard *guard, struct http_visitor *visitor, uint64_t size_bytes,
                        uint64_t now_ns)
{
    uint64_t seconds = size_bytes / guard->limits->bytes_per_second;

    change(guard, visitor, HTTP_VISIT_ANSWERS, now_ns,
           guard->limits->answer_ns + seconds * NS_PER_SECOND);
}

void http_guard_waits(struct http_guard *guard, struct http_visitor *visitor, uint64_t now_ns)
{
    change(guard, visitor, HTTP_VISIT_WAITS, now_ns, guard->limits->next_request_ns);
}

void http_guard_leave(struct http_guard *guard, struct http_visitor *visitor)
{
    set_visit(guard, visitor, HTTP_VISIT_DISMISSED);
    visitor->address->users--;
    TAILQ_REMOVE(&guard->visitors, visitor, entry);
}

uint64_t http_guard_expire(struct http_guard *guard, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    struct http_visitor *visitor;

    TAILQ_FOREACH(visitor, &guard->visitors, entry)
    {
        if (visitor->deadline_ns <= now_ns)
            dismiss(guard, visitor);
        next_ns = MIN(next_ns, visitor->deadline_ns);
    }
    return next_ns;
}
