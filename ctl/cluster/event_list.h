/* The events of a job from all nodes, in order of time, without duplicates. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define EVENT_KIND_SIZE 32
#define EVENT_TEXT_SIZE 512

struct event {
    uint64_t unix_ns, generation, step; /* 0: not known */
    double pause_ms;                    /* NaN: none */
    char node[NAME_SIZE], kind[EVENT_KIND_SIZE], text[EVENT_TEXT_SIZE];
    char *line;    /* as the node wrote it */
    _Bool printed; /* for followers: earlier events may arrive later */
};

struct event_list {
    struct event *events; /* ascending by time, then node */
    size_t count, capacity;
};

void event_list_done(struct event_list *list);
/** event_list_add() - add JSON Lines at the end; those that are not events are left out.
 * event_list_order() follows, once for the answers of all nodes
 * @ret_last_ns: may be NULL; the latest time seen in @text, 0 for none */
int event_list_add(struct event_list *list, const char *text, size_t size_bytes,
                   uint64_t *ret_last_ns) CHECK_RESULT;
/** event_list_order() - sort, and leave duplicates out */
void event_list_order(struct event_list *list);

/** event_append_text() - "14:02:07  a  layer 0 frozen at step 120", with @dated also the date and
 * the zone: a line for people; 0 or -ENOMEM
 */
int event_append_text(const struct event *event, bool dated, struct bytes *into) CHECK_RESULT;
