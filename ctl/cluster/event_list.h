/* List the events of a job from all nodes, in order of time, without duplicates. */
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
/** event_list_add() - append JSON Lines; skip lines that are not events. Call event_list_order()
 * once all nodes' answers are added
 * @ret_last_ns: may be NULL; the latest time seen in @text, 0 for none */
int event_list_add(struct event_list *list, const char *text, size_t size_bytes,
                   uint64_t *ret_last_ns) CHECK_RESULT;
/** event_list_order() - sort the events and drop duplicates */
void event_list_order(struct event_list *list);

/** event_append_text() - append a line for users: "14:02:07  a  layer 0 frozen at step 120"; with
 * @dated also the date and the time zone. Return: 0 or -ENOMEM */
int event_append_text(const struct event *event, bool dated, struct bytes *into) CHECK_RESULT;
